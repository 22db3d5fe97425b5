// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Splitting bfloat16 into exponent codes and the rest, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/exponents.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/exponents.h"
#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

constexpr size_t kWord = 64;

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

using Vector = uint8_t;
Vector broadcast(uint8_t value) { return value; }

void split_word(const uint8_t* from, uint8_t base, uint8_t* rest, uint8_t* masks, size_t mask_bytes) {
  for (size_t p = 0; p < 3; ++p) memset(masks + p * mask_bytes, 0, kWord / 8);
  for (size_t i = 0; i < kWord; ++i) {
    const unsigned low = from[2 * i], high = from[2 * i + 1];
    rest[i] = static_cast<uint8_t>((high & 0x80) | (low & 0x7f));
    const auto exponent = static_cast<uint8_t>(high << 1 | low >> 7);
    const unsigned code = std::min<unsigned>(static_cast<uint8_t>(exponent - base), 7);
    for (size_t p = 0; p < 3; ++p) masks[p * mask_bytes + i / 8] |= static_cast<uint8_t>((code >> p & 1) << (i % 8));
  }
}

void join_word(const uint8_t* rest, const uint8_t* masks, size_t mask_bytes, uint8_t base, uint8_t* to) {
  for (size_t i = 0; i < kWord; ++i) {
    unsigned exponent = base;
    for (size_t p = 0; p < 3; ++p) exponent += (masks[p * mask_bytes + i / 8] >> (i % 8) & 1u) << p;
    to[2 * i] = static_cast<uint8_t>((exponent & 1) << 7 | (rest[i] & 0x7f));
    to[2 * i + 1] = static_cast<uint8_t>((rest[i] & 0x80) | (exponent >> 1 & 0x7f));
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// At most 64, so that a mask word is made of whole vectors.
using ByteTag = hn::CappedTag<uint8_t, 64>;
using Vector = hn::Vec<ByteTag>;
HWY_INLINE Vector broadcast(uint8_t value) { return hn::Set(ByteTag(), value); }

HWY_INLINE Vector shift_right(Vector bytes, int bits) {
  const hn::Repartition<uint16_t, ByteTag> halves;
  const auto shifted = bits == 7 ? hn::BitCast(ByteTag(), hn::ShiftRight<7>(hn::BitCast(halves, bytes)))
                                 : hn::BitCast(ByteTag(), hn::ShiftRight<1>(hn::BitCast(halves, bytes)));
  return hn::And(shifted, hn::Set(ByteTag(), static_cast<uint8_t>(0xff >> bits)));
}

// 64 elements: values at `from`, their rest to `rest`, one word of each mask.
HWY_INLINE void split_word(const uint8_t* from, Vector base, uint8_t* rest, uint8_t* masks, size_t mask_bytes) {
  const ByteTag bytes;
  for (size_t i = 0; i < kWord; i += hn::Lanes(bytes)) {
    Vector low, high;
    hn::LoadInterleaved2(bytes, from + 2 * i, low, high);
    const auto exponent = hn::Or(hn::Add(high, high), shift_right(low, 7));
    const auto sign = hn::And(high, hn::Set(bytes, uint8_t{0x80}));
    hn::StoreU(hn::Or(sign, hn::And(low, hn::Set(bytes, uint8_t{0x7f}))), bytes, rest + i);
    const auto code = hn::Min(hn::Sub(exponent, base), hn::Set(bytes, uint8_t{7}));
    for (int p = 0; p < 3; ++p) {
      const auto mask = hn::TestBit(code, hn::Set(bytes, static_cast<uint8_t>(1 << p)));
      hn::StoreMaskBits(bytes, mask, masks + static_cast<size_t>(p) * mask_bytes + i / 8);
    }
  }
}

HWY_INLINE void join_word(const uint8_t* rest, const uint8_t* masks, size_t mask_bytes, Vector base, uint8_t* to) {
  const ByteTag bytes;
  for (size_t i = 0; i < kWord; i += hn::Lanes(bytes)) {
    auto exponent = base;
    for (int p = 0; p < 3; ++p) {
      // Masks of few lanes are read by whole bytes, and from a copy, because readers may take more.
      uint64_t bits = 0;
      memcpy(&bits, masks + static_cast<size_t>(p) * mask_bytes + i / 8, (hn::Lanes(bytes) + 7) / 8);
      const auto mask = hn::LoadMaskBits(bytes, reinterpret_cast<const uint8_t*>(&bits));
      exponent = hn::Add(exponent, hn::IfThenElseZero(mask, hn::Set(bytes, static_cast<uint8_t>(1 << p))));
    }
    const auto other = hn::LoadU(bytes, rest + i);
    const auto sign = hn::And(other, hn::Set(bytes, uint8_t{0x80}));
    const auto odd =
        hn::IfThenElseZero(hn::TestBit(exponent, hn::Set(bytes, uint8_t{1})), hn::Set(bytes, uint8_t{0x80}));
    const auto low = hn::Or(odd, hn::And(other, hn::Set(bytes, uint8_t{0x7f})));
    hn::StoreInterleaved2(low, hn::Or(sign, shift_right(exponent, 1)), bytes, to + 2 * i);
  }
}

#endif  // vectors

// Asks for lines that are still far away, as many for each word of the frame as for any other.
class Asking {
 public:
  Asking(std::span<const std::byte> what, size_t words)
      : at_(what.data()), lines_((what.size() / kLine + words - 1) / words) {}
  HWY_INLINE void ask() {
    for (size_t line = 0; line < lines_; ++line, at_ += kLine) ask_for(at_);
  }

 private:
  static constexpr size_t kLine = 64;
  const std::byte* at_;
  size_t lines_;
};

void split_all(const std::byte* values, size_t count, uint8_t base, std::byte* rest, std::byte* masks,
               const Upcoming& upcoming) {
  const auto* from = reinterpret_cast<const uint8_t*>(values);
  auto* to = reinterpret_cast<uint8_t*>(rest);
  auto* mask = reinterpret_cast<uint8_t*>(masks);
  const size_t mask_bytes = (count + kWord - 1) / kWord * 8;
  const Vector bases = broadcast(base);
  Asking first(upcoming[0], (count + kWord - 1) / kWord), second(upcoming[1], (count + kWord - 1) / kWord);
  size_t i = 0;
  for (; i + kWord <= count; i += kWord) {
    first.ask();
    second.ask();
    split_word(from + 2 * i, bases, to + i, mask + i / 8, mask_bytes);
  }
  if (i == count) return;
  // Elements that are not there have the exponent of code 0.
  uint8_t padded[2 * kWord], last[kWord];
  for (size_t j = 0; j < kWord; ++j) {
    padded[2 * j] = static_cast<uint8_t>(base << 7);
    padded[2 * j + 1] = static_cast<uint8_t>(base >> 1);
  }
  memcpy(padded, from + 2 * i, 2 * (count - i));
  split_word(padded, bases, last, mask + i / 8, mask_bytes);
  memcpy(to + i, last, count - i);
}

void join_all(const std::byte* rest, const std::byte* masks, size_t count, uint8_t base, std::byte* values,
              const Upcoming& upcoming) {
  const auto* from = reinterpret_cast<const uint8_t*>(rest);
  const auto* mask = reinterpret_cast<const uint8_t*>(masks);
  auto* to = reinterpret_cast<uint8_t*>(values);
  const size_t mask_bytes = (count + kWord - 1) / kWord * 8;
  const Vector bases = broadcast(base);
  Asking first(upcoming[0], (count + kWord - 1) / kWord), second(upcoming[1], (count + kWord - 1) / kWord);
  size_t i = 0;
  for (; i + kWord <= count; i += kWord) {
    first.ask();
    second.ask();
    join_word(from + i, mask + i / 8, mask_bytes, bases, to + 2 * i);
  }
  if (i == count) return;
  uint8_t last[kWord] = {}, padded[2 * kWord];
  memcpy(last, from + i, count - i);
  join_word(last, mask + i / 8, mask_bytes, bases, padded);
  memcpy(to + 2 * i, padded, 2 * (count - i));
}

}  // namespace

void add_exponents_of_target(CodecTable& table) {
  table.split_exponents = split_all;
  table.join_exponents = join_all;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_exponents_of_target);
void add_exponents(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_exponents_of_target)(table); }

}  // namespace hocket::host
#endif
