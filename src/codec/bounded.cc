// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// bounded: no element of a float32 message is farther from its own than a given absolute error; smooth data and data of
// small range become short. A block that cannot keep the bound, or in which something is infinite or NaN, goes as it
// is.
//
// A block of up to 256 elements: one byte, then
//   255        the values
//   w          w <= 30 bit masks of the elements' codes: element i in bit i % 8 of byte i / 8, mask 0 the lowest
//   128 + w    the same of the differences from the element before, the first from 0
// A code is a step count q, stored as 2q or, negative, as -2q - 1; the value is q * 2 * error.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "codec/codecs.h"
#include "codec/dense.h"

namespace hocket::codecs {
namespace {

constexpr size_t kBlock = 256;
constexpr int kMaxWidth = 30;
constexpr uint8_t kRaw = 255;
constexpr uint8_t kDifferences = 128;

using Codes = std::array<uint32_t, kBlock>;

uint32_t folded(int32_t value) { return static_cast<uint32_t>(value) << 1 ^ static_cast<uint32_t>(value >> 31); }
int32_t unfolded(uint32_t code) { return static_cast<int32_t>(code >> 1 ^ (0u - (code & 1u))); }

int width_of(const Codes& codes, size_t count) {
  uint32_t any = 0;
  for (size_t i = 0; i < count; ++i) any |= codes[i];
  return static_cast<int>(std::bit_width(any));
}

size_t mask_bytes(size_t count) { return (count + 7) / 8; }

std::byte* write_masks(const Codes& codes, size_t count, int width, std::byte* out) {
  for (int p = 0; p < width; ++p) {
    std::memset(out, 0, mask_bytes(count));
    for (size_t i = 0; i < count; ++i) out[i / 8] |= static_cast<std::byte>((codes[i] >> p & 1) << (i % 8));
    out += mask_bytes(count);
  }
  return out;
}

void read_masks(const std::byte* in, size_t count, int width, Codes& codes) {
  std::fill_n(codes.begin(), count, 0u);
  for (int p = 0; p < width; ++p) {
    for (size_t i = 0; i < count; ++i) codes[i] |= (std::to_integer<uint32_t>(in[i / 8]) >> (i % 8) & 1u) << p;
    in += mask_bytes(count);
  }
}

class Bounded final : public Codec {
 public:
  Bounded(std::string specification, double error)
      : specification_(std::move(specification)), error_(error), step_(2 * error) {}

  CodecDescription describe(DataType type) const override {
    return {.specification = specification_,
            .ratio = 1 + 1.0 / (kBlock * sizeof(float)),
            .absolute_error = error_,
            .range = largest_value(type)};
  }
  bool supports(DataType type) const override { return type == DataType::kFloat32; }
  size_t block() const override { return kBlock; }
  size_t max_encoded_bytes(size_t count, DataType) const override {
    return (count + kBlock - 1) / kBlock + count * sizeof(float);
  }

  size_t encode(ConstValues values, uint64_t, std::span<std::byte> out) const override {
    std::byte* to = out.data();
    for (size_t first = 0; first < values.count; first += kBlock) {
      std::array<float, kBlock> block;
      const size_t count = std::min(kBlock, values.count - first);
      std::memcpy(block.data(), values.data + first * sizeof(float), count * sizeof(float));
      to = encode_block(block.data(), count, to);
    }
    return static_cast<size_t>(to - out.data());
  }

  Status decode_reduce(std::span<const std::byte> message, std::optional<ReduceOp> op, Values values) const override {
    HOCKET_TRY(check_sum(*this, op));
    for (size_t first = 0; first < values.count; first += kBlock) {
      std::array<float, kBlock> block, before{};
      const size_t count = std::min(kBlock, values.count - first);
      const size_t taken = decode_block(message, block.data(), count);
      if (taken == 0) return bad_message(*this, fmt::format("the block of element {} is damaged or cut", first));
      std::byte* data = values.data + first * sizeof(float);
      if (op) std::memcpy(before.data(), data, count * sizeof(float));
      for (size_t i = 0; op && i < count; ++i) block[i] = before[i] + block[i];
      std::memcpy(data, block.data(), count * sizeof(float));
      message = message.subspan(taken);
    }
    if (message.empty()) return {};
    return bad_message(*this, fmt::format("{} bytes more than {} elements need", message.size(), values.count));
  }

 private:
  float value_of(int32_t steps) const { return static_cast<float>(static_cast<double>(steps) * step_); }

  // Step counts of a block, if they keep the bound.
  bool count_steps(const float* block, size_t count, std::array<int32_t, kBlock>& steps) const {
    bool keeps = true;
    for (size_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(block[i]);
      const double exact = value / step_;
      if (!(std::fabs(exact) < 0x1p27)) return false;
      steps[i] = static_cast<int32_t>(std::lrint(exact));
      keeps = keeps && std::fabs(static_cast<double>(value_of(steps[i])) - value) <= error_;
    }
    return keeps;
  }

  std::byte* encode_block(const float* block, size_t count, std::byte* out) const {
    std::array<int32_t, kBlock> steps;
    if (!count_steps(block, count, steps)) return encode_raw(block, count, out);
    Codes whole, differences;
    for (size_t i = 0; i < count; ++i) {
      whole[i] = folded(steps[i]);
      differences[i] = folded(steps[i] - (i == 0 ? 0 : steps[i - 1]));
    }
    const int wide = width_of(whole, count), narrow = width_of(differences, count);
    const bool smooth = narrow < wide;
    const int width = std::min(wide, narrow);
    if (width > kMaxWidth || static_cast<size_t>(width) * mask_bytes(count) > count * sizeof(float)) {
      return encode_raw(block, count, out);
    }
    out[0] = static_cast<std::byte>(width + (smooth ? kDifferences : 0));
    return write_masks(smooth ? differences : whole, count, width, out + 1);
  }

  static std::byte* encode_raw(const float* block, size_t count, std::byte* out) {
    out[0] = std::byte{kRaw};
    std::memcpy(out + 1, block, count * sizeof(float));
    return out + 1 + count * sizeof(float);
  }

  // Bytes that the block took; 0: it is not one.
  size_t decode_block(std::span<const std::byte> in, float* block, size_t count) const {
    if (in.empty()) return 0;
    const auto kind = std::to_integer<uint8_t>(in[0]);
    if (kind == kRaw) {
      if (in.size() <= count * sizeof(float)) return 0;
      std::memcpy(block, in.data() + 1, count * sizeof(float));
      return 1 + count * sizeof(float);
    }
    const int width = kind % kDifferences;
    const size_t bytes = static_cast<size_t>(width) * mask_bytes(count);
    if (width > kMaxWidth || in.size() <= bytes) return 0;
    Codes codes;
    read_masks(in.data() + 1, count, width, codes);
    uint32_t last = 0;  // unsigned: a hostile message may make it wrap
    for (size_t i = 0; i < count; ++i) {
      const auto code = static_cast<uint32_t>(unfolded(codes[i]));
      last = kind >= kDifferences ? last + code : code;
      block[i] = value_of(static_cast<int32_t>(last));
    }
    return 1 + bytes;
  }

  std::string specification_;
  double error_;
  double step_;
};

}  // namespace

MadeCodec make_bounded(Specification& specification) {
  const double error = specification.real("error", 1e-3, 1e-30, 1e30);
  return std::make_unique<Bounded>(specification.canonical(), error);
}

}  // namespace hocket::codecs
