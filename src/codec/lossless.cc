// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// lossless: bfloat16, float16 and float32, bit for bit, NaN included, in less room where exponents repeat. A message is
// a sequence of frames of 4096 elements, the last one shorter; each says whether it is coded or, where coding does not
// pay, raw.
//
// A value is a top of 16 bits laid out as a bfloat16, and low bits that are not coded: none of a bfloat16; the lower 16
// of a float32; the 3 lowest of a float16, whose exponent of 5 bits fits where 8 are.
//
//   raw frame     byte 0; the values
//   coded frame   byte 1; base; u16 escapes, little-endian; the tops as in kernels/exponents.h; the low bits, of a
//                 float16 as three bit masks

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/codecs.h"
#include "codec/dense.h"
#include "kernels/exponent_frame.h"
#include "kernels/exponents.h"
#include "kernels/steps.h"

namespace hocket::codecs {
namespace {

using Escapes = std::array<std::byte, kExponentFrame + kEscapeSlack>;

using LowMasks = std::array<std::byte, kLowBits * kStepBlock / 8>;

// Calls visit(where, where in the masks of this part) for each mask of a part of a frame of `count` elements.
template <typename Visit>
void for_masks(size_t count, size_t first, Visit visit) {
  const size_t in_part = low_mask_bytes(std::min(kStepBlock, count - first));
  for (size_t p = 0; p < kLowBits; ++p) visit(p * low_mask_bytes(count) + first / 8, p * in_part);
}

// What begins so far behind `from`, as long as a part that is worked on now.
std::span<const std::byte> ahead(std::span<const std::byte> from, size_t bytes) {
  constexpr size_t kAhead = size_t{24} << 10;
  const auto rest = from.subspan(std::min(kAhead, from.size()));
  return rest.first(std::min(bytes, rest.size()));
}

// Tops and low bits of a frame.
class Split {
 public:
  Split(DataType type, const std::byte* values, size_t count) : tops_(values) {
    if (type == DataType::kFloat32) split_words(values, count);
    if (type == DataType::kFloat16) split_halves(values, count);
  }
  const std::byte* tops() const { return tops_; }
  const std::byte* lows() const { return reinterpret_cast<const std::byte*>(lows_.data()); }

 private:
  void split_words(const std::byte* values, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits;
      std::memcpy(&bits, values + 4 * i, sizeof bits);
      room_[i] = static_cast<uint16_t>(bits >> 16);
      lows_[i] = static_cast<uint16_t>(bits);
    }
    tops_ = reinterpret_cast<const std::byte*>(room_.data());
  }
  void split_halves(const std::byte* values, size_t count) {
    auto* masks = reinterpret_cast<std::byte*>(lows_.data());
    for (size_t first = 0; first < count; first += kStepBlock) {
      std::array<uint32_t, kStepBlock> lows{};
      const size_t some = std::min(kStepBlock, count - first);
      for (size_t i = 0; i < some; ++i) {
        uint16_t bits;
        std::memcpy(&bits, values + 2 * (first + i), sizeof bits);
        room_[first + i] = static_cast<uint16_t>((bits & 0x8000) | (bits & 0x7fff) >> 3);
        lows[i] = bits & 7u;
      }
      LowMasks part;
      write_masks(lows.data(), kLowBits, low_mask_bytes(some), part.data());
      for_masks(count, first, [&](size_t whole, size_t in_part) {
        std::memcpy(masks + whole, &part[in_part], low_mask_bytes(some));
      });
    }
    tops_ = reinterpret_cast<const std::byte*>(room_.data());
  }

  const std::byte* tops_;
  std::array<uint16_t, kExponentFrame> room_;
  std::array<uint16_t, kExponentFrame> lows_;
};

void join_words(const std::byte* lows, const std::byte* tops, size_t count, std::byte* values) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t top, low;
    std::memcpy(&top, tops + 2 * i, sizeof top);
    std::memcpy(&low, lows + 2 * i, sizeof low);
    const uint32_t bits = uint32_t{top} << 16 | low;
    std::memcpy(values + 4 * i, &bits, sizeof bits);
  }
}

void join_halves(const std::byte* masks, const std::byte* tops, size_t count, std::byte* values) {
  for (size_t first = 0; first < count; first += kStepBlock) {
    std::array<uint32_t, kStepBlock> lows;
    const size_t some = std::min(kStepBlock, count - first);
    LowMasks part;
    for_masks(count, first,
              [&](size_t whole, size_t in_part) { std::memcpy(&part[in_part], masks + whole, low_mask_bytes(some)); });
    read_masks(part.data(), kLowBits, low_mask_bytes(some), lows.data());
    for (size_t i = 0; i < some; ++i) {
      uint16_t top;
      std::memcpy(&top, tops + 2 * (first + i), sizeof top);
      const auto bits = static_cast<uint16_t>((top & 0x8000u) | (top & 0xfffu) << 3 | lows[i]);
      std::memcpy(values + 2 * (first + i), &bits, sizeof bits);
    }
  }
}

// Codes the first `count` of the values. Returns the bytes of the frame; 0: it would be longer than a raw one.
size_t encode_coded(DataType type, std::span<const std::byte> values, size_t count, std::span<std::byte> out) {
  const size_t raw = count * element_bytes(type), lows = low_bytes(type, count);
  const size_t masks_end = kExponentHead + count + exponent_mask_bytes(count);
  if (masks_end + lows > 1 + raw) return 0;
  const Split split(type, values.data(), count);
  const uint8_t base = choose_base(split.tops(), count);
  Escapes escapes;
  std::byte* const rest = &out[kExponentHead];
  const size_t escaped = split_exponents(split.tops(), count, base, {rest, rest + count, escapes.data()},
                                         {ahead(values, raw), ahead(out, raw)});
  const size_t end = masks_end + escaped;
  if (end + lows > 1 + raw) return 0;
  out[0] = kCodedFrame;
  out[1] = std::byte{base};
  out[2] = static_cast<std::byte>(escaped);
  out[3] = static_cast<std::byte>(escaped >> 8);
  std::memcpy(out.data() + masks_end, escapes.data(), escaped);
  std::memcpy(out.data() + end, split.lows(), lows);
  return end + lows;
}

size_t encode_frame(DataType type, std::span<const std::byte> values, size_t count, std::span<std::byte> out) {
  if (const size_t bytes = encode_coded(type, values, count, out); bytes != 0) return bytes;
  const size_t raw = count * element_bytes(type);
  out[0] = kRawFrame;
  std::memcpy(&out[1], values.data(), raw);
  return 1 + raw;
}

// Bytes that the frame took; 0: it is not one. Of bfloat16 the values may be added to those that are there. `upcoming`:
// where the values of later frames belong.
size_t decode_frame(std::span<const std::byte> in, DataType type, size_t count, bool add, std::byte* values,
                    std::span<const std::byte> upcoming) {
  const size_t masks_end = kExponentHead + count + exponent_mask_bytes(count);
  if (in.size() < masks_end || in[0] != kCodedFrame) return 0;
  const size_t escaped = std::to_integer<size_t>(in[2]) | std::to_integer<size_t>(in[3]) << 8;
  if (escaped > count) return 0;
  const size_t end = masks_end + escaped + low_bytes(type, count);
  if (in.size() < end) return 0;
  Escapes escapes;
  std::memcpy(escapes.data(), in.data() + masks_end, escaped);
  alignas(64) std::array<std::byte, 2 * kExponentFrame> room;
  std::byte* const tops = type == DataType::kBfloat16 ? values : room.data();
  const std::byte* const rest = in.data() + kExponentHead;
  const size_t seen = join_exponents({rest, rest + count, escapes.data()}, count, std::to_integer<uint8_t>(in[1]), add,
                                     tops, {ahead(in, end), upcoming});
  if (seen != escaped) return 0;
  const std::byte* const lows = in.data() + masks_end + escaped;
  if (type == DataType::kFloat32) join_words(lows, tops, count, values);
  if (type == DataType::kFloat16) join_halves(lows, tops, count, values);
  return end;
}

// The values of a frame, or of a raw one where they are in the message; what they become in `values` is the same.
size_t combine_frame(std::span<const std::byte> in, std::optional<ReduceOp> op, DataType type, size_t count,
                     std::byte* values, std::span<const std::byte> upcoming) {
  const size_t raw = count * element_bytes(type);
  if (!in.empty() && in[0] == kRawFrame && in.size() > raw) {
    if (op) combine_decoded(type, *op, in.data() + 1, values, count);
    if (!op) std::memcpy(values, in.data() + 1, raw);
    return 1 + raw;
  }
  const bool adds = op == ReduceOp::kSum && type == DataType::kBfloat16;
  if (!op || adds) return decode_frame(in, type, count, adds, values, upcoming);
  alignas(64) std::array<std::byte, 4 * kExponentFrame> tile;
  const size_t taken = decode_frame(in, type, count, false, tile.data(), upcoming);
  if (taken != 0) combine_decoded(type, *op, tile.data(), values, count);
  return taken;
}

class Lossless final : public Codec {
 public:
  explicit Lossless(std::string specification) : specification_(std::move(specification)) {}
  const CodedForm* form() const override { return &form_; }

  CodecDescription describe(DataType type) const override {
    const auto raw = static_cast<double>(kExponentFrame * element_bytes(type));
    return {.specification = specification_,
            .ratio = 1 + 1 / raw,
            .lossless = true,
            .idempotent = true,
            .range = largest_value(type),
            .encode_speed = 5,
            .decode_speed = 5,
            .usual_ratio = type == DataType::kFloat32 ? 0.85 : 0.7};  // Gaussian
  }
  bool supports(DataType type) const override {
    return type == DataType::kBfloat16 || type == DataType::kFloat16 || type == DataType::kFloat32;
  }
  size_t block() const override { return kExponentFrame; }
  size_t max_encoded_bytes(size_t count, DataType type) const override {
    return (count + kExponentFrame - 1) / kExponentFrame + count * element_bytes(type);
  }
  size_t encode(ConstValues values, uint64_t, std::span<std::byte> out) const override {
    size_t bytes = 0;
    const std::span whole(values.data, values.count * element_bytes(values.type));
    for (size_t first = 0; first < values.count; first += kExponentFrame) {
      const size_t count = std::min(kExponentFrame, values.count - first);
      bytes += encode_frame(values.type, whole.subspan(first * element_bytes(values.type)), count, out.subspan(bytes));
    }
    return bytes;
  }
  Status decode_reduce(std::span<const std::byte> message, std::optional<ReduceOp> op, Values values) const override {
    const size_t element = element_bytes(values.type);
    const std::span<const std::byte> whole(values.data, values.count * element);
    for (size_t first = 0; first < values.count; first += kExponentFrame) {
      const size_t count = std::min(kExponentFrame, values.count - first);
      std::byte* const data = values.data + first * element;
      const auto upcoming = ahead(whole.subspan(first * element), count * element);
      const size_t taken = combine_frame(message, op, values.type, count, data, upcoming);
      if (taken == 0) return bad_message(*this, fmt::format("the frame of element {} is damaged or cut", first));
      message = message.subspan(taken);
    }
    if (message.empty()) return {};
    return bad_message(*this, fmt::format("{} bytes more than {} elements need", message.size(), values.count));
  }

 private:
  static constexpr CodedForm form_ = {.kind = CodedForm::Kind::kExponents};
  std::string specification_;
};

}  // namespace

MadeCodec make_lossless(Specification& specification) { return std::make_unique<Lossless>(specification.canonical()); }

}  // namespace hocket::codecs
