// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// lossless: bfloat16, float16 and float32, bit for bit, NaN included, in less room where exponents repeat. A message is
// a sequence of frames of 4096 elements, the last one shorter; each says whether it is coded or, where coding does not
// pay, raw.
//
// A value is a top of 16 bits laid out as a bfloat16, and low bits that are not coded (kernels/tops.h).
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
#include "kernels/tops.h"

namespace hocket::codecs {
namespace {

using Escapes = std::array<std::byte, kExponentFrame + kEscapeSlack>;

// What begins so far behind `from`, as long as a part that is worked on now.
std::span<const std::byte> ahead(std::span<const std::byte> from, size_t bytes) {
  constexpr size_t kAhead = size_t{24} << 10;
  const auto rest = from.subspan(std::min(kAhead, from.size()));
  return rest.first(std::min(bytes, rest.size()));
}

// Room for the tops or the low bits of a frame.
using Halves = std::array<std::byte, 2 * kExponentFrame>;

// Codes the first `count` of the values. Returns the bytes of the frame; 0: it would be longer than a raw one.
size_t encode_coded(DataType type, std::span<const std::byte> values, size_t count, std::span<std::byte> out) {
  const size_t raw = count * element_bytes(type), lows = low_bytes(type, count);
  const size_t masks_end = kExponentHead + count + exponent_mask_bytes(count);
  if (masks_end + lows > 1 + raw) return 0;
  alignas(64) Halves split, low;
  const bool is_top = type == DataType::kBfloat16;
  const std::byte* const tops = is_top ? values.data() : split.data();
  if (!is_top) split_tops({type, values.data(), count, values.size() / element_bytes(type)}, split.data(), low.data());
  const uint8_t base = choose_base(tops, count);
  Escapes escapes;
  std::byte* const rest = &out[kExponentHead];
  const size_t escaped =
      split_exponents(tops, count, base, {rest, rest + count, escapes.data()}, {ahead(values, raw), ahead(out, raw)});
  const size_t end = masks_end + escaped;
  if (end + lows > 1 + raw) return 0;
  out[0] = kCodedFrame;
  out[1] = std::byte{base};
  out[2] = static_cast<std::byte>(escaped);
  out[3] = static_cast<std::byte>(escaped >> 8);
  std::memcpy(out.data() + masks_end, escapes.data(), escaped);
  std::memcpy(out.data() + end, low.data(), lows);
  return end + lows;
}

size_t encode_frame(DataType type, std::span<const std::byte> values, size_t count, std::span<std::byte> out) {
  if (const size_t bytes = encode_coded(type, values, count, out); bytes != 0) return bytes;
  const size_t raw = count * element_bytes(type);
  out[0] = kRawFrame;
  std::memcpy(&out[1], values.data(), raw);
  return 1 + raw;
}

// Bytes that the frame of the first `count` values took; 0: it is not one. Of bfloat16 they may be added to those that
// are there. `upcoming`: where the values of later frames belong.
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
  alignas(64) Halves room;
  const bool is_top = type == DataType::kBfloat16;
  std::byte* const tops = is_top ? values : room.data();
  const std::byte* const rest = in.data() + kExponentHead;
  const size_t seen = join_exponents({rest, rest + count, escapes.data()}, count, std::to_integer<uint8_t>(in[1]), add,
                                     tops, {ahead(in, end), is_top ? upcoming : upcoming.first(0)});
  if (seen != escaped) return 0;
  if (is_top) return end;
  const std::byte* const lows = in.data() + masks_end + escaped;
  join_tops(room.data(), lows, {type, values, count, count}, upcoming);
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
