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
#include <cstring>

#include "codec/codecs.h"
#include "codec/dense.h"
#include "kernels/steps.h"

namespace hocket::codecs {
namespace {

constexpr size_t kBlock = kStepBlock;
constexpr int kMaxWidth = 30;
constexpr uint8_t kRaw = 255;
constexpr uint8_t kDifferences = 128;

using Codes = std::array<uint32_t, kBlock>;

size_t mask_bytes(size_t count) { return (count + 7) / 8; }

// A block that lacks elements repeats the last one, so that they make no code longer.
void fill_up(std::array<float, kBlock>& block, size_t count) {
  std::fill(block.begin() + static_cast<ptrdiff_t>(count), block.end(), block[count - 1]);
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
      fill_up(block, count);
      to = encode_block(block.data(), count, to);
    }
    return static_cast<size_t>(to - out.data());
  }

  Status decode_reduce(std::span<const std::byte> message, std::optional<ReduceOp> op, Values values) const override {
    HOCKET_TRY(check_sum(*this, op));
    for (size_t first = 0; first < values.count; first += kBlock) {
      alignas(64) std::array<float, kBlock> block;
      const size_t count = std::min(kBlock, values.count - first);
      const size_t taken = decode_block(message, block.data(), count);
      if (taken == 0) return bad_message(*this, fmt::format("the block of element {} is damaged or cut", first));
      const auto* decoded = reinterpret_cast<const std::byte*>(block.data());
      std::byte* data = values.data + first * sizeof(float);
      if (op) {
        combine_decoded(values.type, *op, decoded, data, count);
      } else {
        std::memcpy(data, decoded, count * sizeof(float));
      }
      message = message.subspan(taken);
    }
    if (message.empty()) return {};
    return bad_message(*this, fmt::format("{} bytes more than {} elements need", message.size(), values.count));
  }

 private:
  std::byte* encode_block(const float* block, size_t count, std::byte* out) const {
    Codes codes;
    const StepCodes steps = to_steps(block, step_, codes.data());
    if (!steps.keeps || steps.width > kMaxWidth ||
        static_cast<size_t>(steps.width) * mask_bytes(count) > count * sizeof(float)) {
      return encode_raw(block, count, out);
    }
    std::fill(codes.begin() + static_cast<ptrdiff_t>(count), codes.end(), 0u);
    out[0] = static_cast<std::byte>(steps.width + (steps.differences ? kDifferences : 0));
    write_masks(codes.data(), steps.width, mask_bytes(count), out + 1);
    return out + 1 + static_cast<size_t>(steps.width) * mask_bytes(count);
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
    read_masks(in.data() + 1, width, mask_bytes(count), codes.data());
    from_steps(codes.data(), kind >= kDifferences, step_, block);
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
