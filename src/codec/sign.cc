// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// sign: one bit for each element, and for each block the mean of its magnitudes, which is the scale that loses least.
// Zeros count as positive. A block in which something is infinite or NaN becomes NaN whole.
//
// A block of n elements: float32 scale, little-endian; m = n/8 (rounded up) bytes, of which byte j holds the signs of
// the elements j, j + m, j + 2m, ..., lowest bit first.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/codecs.h"
#include "codec/dense.h"
#include "kernels/element.h"

namespace hocket::codecs {
namespace {

// In 16 parts, so that compilers make vectors of it; in double, where no sum of a block is too large.
float mean_magnitude(const float* block, size_t count) {
  std::array<double, 16> sums{};
  size_t i = 0;
  for (; i + sums.size() <= count; i += sums.size()) {
    for (size_t j = 0; j < sums.size(); ++j) sums[j] += static_cast<double>(std::fabs(block[i + j]));
  }
  for (; i < count; ++i) sums[i % sums.size()] += static_cast<double>(std::fabs(block[i]));
  double sum = 0;
  for (double part : sums) sum += part;
  const auto mean = static_cast<float>(sum / static_cast<double>(count));
  return std::isfinite(mean) ? mean : std::numeric_limits<float>::quiet_NaN();
}

std::byte* encode_block(const float* block, size_t count, std::byte* out) {
  const float scale = mean_magnitude(block, count);
  std::memcpy(out, &scale, sizeof scale);
  const size_t bytes = (count + 7) / 8;
  auto* __restrict signs = reinterpret_cast<uint8_t*>(out + sizeof scale);
  std::memset(signs, 0, bytes);
  for (size_t p = 0; p * bytes < count; ++p) {
    const float* __restrict part = block + p * bytes;
    const size_t some = std::min(bytes, count - p * bytes);
    for (size_t j = 0; j < some; ++j) signs[j] = static_cast<uint8_t>(signs[j] | (part[j] < 0 ? 1 : 0) << p);
  }
  return out + sizeof scale + bytes;
}

template <bool kAdd>
const std::byte* decode_block(const std::byte* in, float* block, size_t count) {
  uint32_t bits;
  std::memcpy(&bits, in, sizeof bits);
  const size_t bytes = (count + 7) / 8;
  const auto* __restrict signs = reinterpret_cast<const uint8_t*>(in + sizeof bits);
  for (size_t p = 0; p * bytes < count; ++p) {
    float* __restrict part = block + p * bytes;
    const size_t some = std::min(bytes, count - p * bytes);
    for (size_t j = 0; j < some; ++j) {
      const float value = element::float_of(bits ^ static_cast<uint32_t>(signs[j] >> p) << 31);
      part[j] = kAdd ? part[j] + value : value;
    }
  }
  return in + sizeof bits + bytes;
}

class Sign final : public DenseCodec {
 public:
  Sign(std::string specification, size_t block) : specification_(std::move(specification)), block_(block) {}

  CodecDescription describe(DataType type) const override {
    CodecDescription description{
        .specification = specification_,
        .ratio = static_cast<double>(encoded_bytes(block_)) / static_cast<double>(block_ * element_bytes(type)),
        .relative_error = 1,
        .idempotent = true,
        .range = largest_value(type),
        .encode_speed = 2.2,
        .decode_speed = 3.4};
    add_rounding(type, description);
    return description;
  }
  size_t block() const override { return block_; }

 private:
  size_t encoded_bytes(size_t count) const override {
    const auto bytes = [](size_t some) { return some == 0 ? 0 : sizeof(float) + (some + 7) / 8; };
    return count / block_ * bytes(block_) + bytes(count % block_);
  }
  void encode_floats(const float* values, size_t count, uint64_t, std::byte* out) const override {
    for (size_t i = 0; i < count; i += block_) out = encode_block(values + i, std::min(block_, count - i), out);
  }
  void decode_floats(const std::byte* in, float* values, size_t count, bool add) const override {
    for (size_t i = 0; i < count; i += block_) {
      const size_t some = std::min(block_, count - i);
      in = add ? decode_block<true>(in, values + i, some) : decode_block<false>(in, values + i, some);
    }
  }

  std::string specification_;
  size_t block_;
};

}  // namespace

MadeCodec make_sign(Specification& specification) {
  const auto block = static_cast<size_t>(specification.one_of("block", {1024, 256, 512, 2048, 4096}));
  return std::make_unique<Sign>(specification.canonical(), block);
}

}  // namespace hocket::codecs
