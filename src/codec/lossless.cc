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
#include <bit>
#include <cstring>

#include "codec/codecs.h"
#include "codec/dense.h"
#include "kernels/exponents.h"

namespace hocket::codecs {
namespace {

constexpr size_t kHead = 4;  // bytes of a coded frame before the tops
enum FrameKind : uint8_t { kRaw = 0, kCoded = 1 };

using Masks = std::array<std::byte, exponent_mask_bytes(kExponentFrame)>;

size_t low_bytes(DataType type, size_t count) {
  if (type == DataType::kFloat32) return 2 * count;
  return type == DataType::kFloat16 ? 3 * ((count + 7) / 8) : 0;
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
    auto* masks = reinterpret_cast<uint8_t*>(lows_.data());
    const size_t mask_bytes = (count + 7) / 8;
    std::memset(masks, 0, 3 * mask_bytes);
    for (size_t i = 0; i < count; ++i) {
      uint16_t bits;
      std::memcpy(&bits, values + 2 * i, sizeof bits);
      room_[i] = static_cast<uint16_t>((bits & 0x8000) | (bits & 0x7fff) >> 3);
      for (size_t p = 0; p < 3; ++p) {
        masks[p * mask_bytes + i / 8] |= static_cast<uint8_t>((bits >> p & 1) << (i % 8));
      }
    }
    tops_ = reinterpret_cast<const std::byte*>(room_.data());
  }

  const std::byte* tops_;
  std::array<uint16_t, kExponentFrame> room_;
  std::array<uint16_t, kExponentFrame> lows_;
};

void join_lows(DataType type, const std::byte* lows, const std::byte* tops, size_t count, std::byte* values) {
  const auto* masks = reinterpret_cast<const uint8_t*>(lows);
  const size_t mask_bytes = (count + 7) / 8;
  for (size_t i = 0; i < count; ++i) {
    uint16_t top, low;
    std::memcpy(&top, tops + 2 * i, sizeof top);
    if (type == DataType::kFloat32) {
      std::memcpy(&low, lows + 2 * i, sizeof low);
      const uint32_t bits = uint32_t{top} << 16 | low;
      std::memcpy(values + 4 * i, &bits, sizeof bits);
    } else {
      low = 0;
      for (size_t p = 0; p < 3; ++p) {
        low = static_cast<uint16_t>(low | (masks[p * mask_bytes + i / 8] >> (i % 8) & 1) << p);
      }
      const auto bits = static_cast<uint16_t>((top & 0x8000) | (top & 0xfff) << 3 | low);
      std::memcpy(values + 2 * i, &bits, sizeof bits);
    }
  }
}

uint8_t exponent_of(const std::byte* tops, size_t i) {
  uint16_t top;
  std::memcpy(&top, tops + 2 * i, sizeof top);
  return static_cast<uint8_t>(top >> 7);
}

// The first of the seven exponents that most of a sample have.
uint8_t choose_base(const std::byte* tops, size_t count) {
  constexpr size_t kSample = 128;
  std::array<uint16_t, 256 + 7> seen{};
  const size_t stride = std::max<size_t>(1, count / kSample);
  size_t lowest = 255, highest = 0;
  for (size_t i = 0; i < count; i += stride) {
    const size_t exponent = exponent_of(tops, i);
    ++seen[exponent];
    lowest = std::min(lowest, exponent);
    highest = std::max(highest, exponent);
  }
  size_t best = lowest, most = 0;
  for (size_t base = lowest; base <= highest; ++base) {
    size_t covered = 0;
    for (size_t e = base; e < base + 7; ++e) covered += seen[e];
    if (covered > most) {
      most = covered;
      best = base;
    }
  }
  return static_cast<uint8_t>(best);
}

// Visits the places of the escapes: where all three masks are set.
template <typename Visit>
void for_escapes(const std::byte* masks, size_t count, Visit visit) {
  const size_t words = (count + 63) / 64;
  for (size_t w = 0; w < words; ++w) {
    std::array<uint64_t, 3> bits;
    for (size_t p = 0; p < 3; ++p) std::memcpy(&bits[p], masks + (p * words + w) * 8, 8);
    for (uint64_t escapes = bits[0] & bits[1] & bits[2]; escapes != 0; escapes &= escapes - 1) {
      visit(w * 64 + static_cast<size_t>(std::countr_zero(escapes)));
    }
  }
}

// Returns the end of the frame, which is never longer than a raw one.
std::byte* encode_frame(DataType type, const std::byte* values, size_t count, std::byte* out) {
  const Split split(type, values, count);
  const uint8_t base = choose_base(split.tops(), count);
  const size_t raw = count * element_bytes(type);
  const size_t masks_end = kHead + count + exponent_mask_bytes(count);
  Masks masks;
  std::array<std::byte, kExponentFrame> escapes;
  std::array<std::byte, kExponentFrame> rest;
  split_exponents(split.tops(), count, base, rest.data(), masks.data());
  size_t escaped = 0;
  for_escapes(masks.data(), count, [&](size_t i) { escapes[escaped++] = std::byte{exponent_of(split.tops(), i)}; });
  if (masks_end + escaped + low_bytes(type, count) > 1 + raw) {
    out[0] = std::byte{kRaw};
    std::memcpy(out + 1, values, raw);
    return out + 1 + raw;
  }
  out[0] = std::byte{kCoded};
  out[1] = std::byte{base};
  out[2] = static_cast<std::byte>(escaped);
  out[3] = static_cast<std::byte>(escaped >> 8);
  std::memcpy(out + kHead, rest.data(), count);
  std::memcpy(out + kHead + count, masks.data(), exponent_mask_bytes(count));
  std::memcpy(out + masks_end, escapes.data(), escaped);
  std::memcpy(out + masks_end + escaped, split.lows(), low_bytes(type, count));
  return out + masks_end + escaped + low_bytes(type, count);
}

// Bytes that the frame took; 0: it is not one.
size_t decode_frame(std::span<const std::byte> in, DataType type, size_t count, std::byte* values) {
  const size_t raw = count * element_bytes(type);
  if (!in.empty() && in[0] == std::byte{kRaw} && in.size() > raw) {
    std::memcpy(values, in.data() + 1, raw);
    return 1 + raw;
  }
  const size_t masks_end = kHead + count + exponent_mask_bytes(count);
  if (in.size() < masks_end || in[0] != std::byte{kCoded}) return 0;
  const size_t escaped = std::to_integer<size_t>(in[2]) | std::to_integer<size_t>(in[3]) << 8;
  const size_t end = masks_end + escaped + low_bytes(type, count);
  if (in.size() < end) return 0;
  const std::byte* masks = in.data() + kHead + count;
  alignas(64) std::array<std::byte, 2 * kExponentFrame> room;
  std::byte* tops = type == DataType::kBfloat16 ? values : room.data();
  join_exponents(in.data() + kHead, masks, count, std::to_integer<uint8_t>(in[1]), tops);
  size_t seen = 0;
  bool within = true;
  for_escapes(masks, count, [&](size_t i) {
    within = within && i < count && seen < escaped;
    if (!within) return;
    uint16_t top;
    std::memcpy(&top, tops + 2 * i, sizeof top);
    top = static_cast<uint16_t>((top & 0x807f) | std::to_integer<unsigned>(in[masks_end + seen++]) << 7);
    std::memcpy(tops + 2 * i, &top, sizeof top);
  });
  if (!within || seen != escaped) return 0;
  if (type != DataType::kBfloat16) join_lows(type, in.data() + masks_end + escaped, tops, count, values);
  return end;
}

class Lossless final : public Codec {
 public:
  explicit Lossless(std::string specification) : specification_(std::move(specification)) {}

  CodecDescription describe(DataType type) const override {
    const auto raw = static_cast<double>(kExponentFrame * element_bytes(type));
    return {.specification = specification_,
            .ratio = 1 + 1 / raw,
            .lossless = true,
            .idempotent = true,
            .range = largest_value(type),
            .encode_speed = 3,
            .decode_speed = 4,
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
    std::byte* to = out.data();
    for (size_t first = 0; first < values.count; first += kExponentFrame) {
      const size_t count = std::min(kExponentFrame, values.count - first);
      to = encode_frame(values.type, values.data + first * element_bytes(values.type), count, to);
    }
    return static_cast<size_t>(to - out.data());
  }
  Status decode_reduce(std::span<const std::byte> message, std::optional<ReduceOp> op, Values values) const override {
    for (size_t first = 0; first < values.count; first += kExponentFrame) {
      const size_t count = std::min(kExponentFrame, values.count - first);
      std::byte* data = values.data + first * element_bytes(values.type);
      alignas(64) std::array<std::byte, 4 * kExponentFrame> tile;
      const size_t taken = decode_frame(message, values.type, count, op ? tile.data() : data);
      if (taken == 0) return bad_message(*this, fmt::format("the frame of element {} is damaged or cut", first));
      if (op) add(values.type, *op, data, tile.data(), count);
      message = message.subspan(taken);
    }
    if (message.empty()) return {};
    return bad_message(*this, fmt::format("{} bytes more than {} elements need", message.size(), values.count));
  }

 private:
  static void add(DataType type, ReduceOp op, std::byte* data, const std::byte* decoded, size_t count) {
    const std::array<const std::byte*, 2> sources = {data, decoded};
    combine({.type = type, .op = op, .sources = sources, .destinations = {&data, 1}, .count = count});
  }

  std::string specification_;
};

}  // namespace

MadeCodec make_lossless(Specification& specification) { return std::make_unique<Lossless>(specification.canonical()); }

}  // namespace hocket::codecs
