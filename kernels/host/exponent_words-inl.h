// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Words of 64 bfloat16 into codes of their exponents and the rest (kernels/exponents.h), and back. Included once for
// each instruction set.

#if defined(HOCKET_HOST_EXPONENT_WORDS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_EXPONENT_WORDS_INL
#undef HOCKET_HOST_EXPONENT_WORDS_INL
#else
#define HOCKET_HOST_EXPONENT_WORDS_INL
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/exponents.h"
#include "kernels/host/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

constexpr size_t kWord = 64;

// Where bytes are compressed and expanded, escapes are done with the word that they are of: to find them one by one
// takes longer than all the rest. Else they are done by themselves, after all words.
#define HOCKET_EXPANDS (HWY_TARGET <= HWY_AVX3_DL && HWY_ARCH_X86)

using Element = element::Of<DataType::kBfloat16>;

inline uint8_t exponent_of(const std::byte* values, size_t i) {
  uint16_t value;
  memcpy(&value, values + 2 * i, sizeof value);
  return static_cast<uint8_t>(value >> 7);
}

// The places of a word's escapes: where all three masks are set.
HWY_INLINE uint64_t escapes_of_word(const uint8_t* masks, size_t mask_bytes) {
  uint64_t bits[3];
  for (size_t p = 0; p < 3; ++p) memcpy(&bits[p], masks + p * mask_bytes, sizeof bits[p]);
  return bits[0] & bits[1] & bits[2];
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

using Vector = uint8_t;
inline Vector broadcast(uint8_t value) { return value; }

inline size_t count_within(const uint8_t* exponents, size_t count, uint8_t base) {
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) found += exponents[i] >= base && exponents[i] <= base + 6;
  return found;
}

inline size_t split_word(const uint8_t* from, uint8_t base, uint8_t* rest, uint8_t* masks, size_t mask_bytes,
                         uint8_t*) {
  for (size_t p = 0; p < 3; ++p) memset(masks + p * mask_bytes, 0, kWord / 8);
  for (size_t i = 0; i < kWord; ++i) {
    const unsigned low = from[2 * i], high = from[2 * i + 1];
    rest[i] = static_cast<uint8_t>((high & 0x80) | (low & 0x7f));
    const auto exponent = static_cast<uint8_t>(high << 1 | low >> 7);
    const unsigned code = std::min<unsigned>(static_cast<uint8_t>(exponent - base), 7);
    for (size_t p = 0; p < 3; ++p) masks[p * mask_bytes + i / 8] |= static_cast<uint8_t>((code >> p & 1) << (i % 8));
  }
  return 0;
}

template <bool>
size_t join_word(const uint8_t* rest, const uint8_t* masks, size_t mask_bytes, uint8_t base, const uint8_t*,
                 uint8_t* to) {
  for (size_t i = 0; i < kWord; ++i) {
    unsigned exponent = base;
    for (size_t p = 0; p < 3; ++p) exponent += (masks[p * mask_bytes + i / 8] >> (i % 8) & 1u) << p;
    to[2 * i] = static_cast<uint8_t>((exponent & 1) << 7 | (rest[i] & 0x7f));
    to[2 * i + 1] = static_cast<uint8_t>((rest[i] & 0x80) | (exponent >> 1 & 0x7f));
  }
  return 0;
}

// Of 64 elements the sums, in the place of the first.
inline void add_word(const uint8_t* more, uint8_t* to) {
  for (size_t i = 0; i < 2 * kWord; i += 2) {
    uint16_t sum, one;
    memcpy(&sum, to + i, sizeof sum);
    memcpy(&one, more + i, sizeof one);
    sum = Element::encode(Element::decode(sum) + Element::decode(one));
    memcpy(to + i, &sum, sizeof sum);
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// At most 64, so that a mask word is made of whole vectors.
using ByteTag = hn::CappedTag<uint8_t, 64>;
using Vector = hn::Vec<ByteTag>;
HWY_INLINE Vector broadcast(uint8_t value) { return hn::Set(ByteTag(), value); }

HWY_INLINE Vector choose_bits(uint8_t mask, Vector yes, Vector no) {
  const auto bits = hn::Set(ByteTag(), mask);
#if HOCKET_MASKS
  return hn::IfVecThenElse(bits, yes, no);  // in one step; elsewhere it chooses whole bytes
#else
  return hn::Or(hn::And(bits, yes), hn::AndNot(bits, no));
#endif
}

// Of 16 bits each. What a byte gets of the other one is not looked at.
template <int kBits>
HWY_INLINE Vector shifted_right(Vector bytes) {
  const hn::Repartition<uint16_t, ByteTag> halves;
  return hn::BitCast(ByteTag(), hn::ShiftRight<kBits>(hn::BitCast(halves, bytes)));
}
template <int kBits>
HWY_INLINE Vector shifted_left(Vector bytes) {
  const hn::Repartition<uint16_t, ByteTag> halves;
  return hn::BitCast(ByteTag(), hn::ShiftLeft<kBits>(hn::BitCast(halves, bytes)));
}

// Adds as combine() does.
HWY_INLINE void add_vector(Vector more, uint8_t* to) {
  using Lanes = LanesOf<DataType::kBfloat16>;
  const auto sum = Lanes::decode(hn::BitCast(Words(), hn::LoadU(ByteTag(), to)));
  const auto one = Lanes::decode(hn::BitCast(Words(), more));
  const auto added = Lanes::encode({hn::Add(sum.a, one.a), hn::Add(sum.b, one.b)});
  hn::StoreU(hn::BitCast(ByteTag(), added), ByteTag(), to);
}

// Of 64 elements the sums, in the place of the first.
[[maybe_unused]] HWY_INLINE void add_word(const uint8_t* more, uint8_t* to) {
  const ByteTag bytes;
  for (size_t i = 0; i < 2 * kWord; i += hn::Lanes(bytes)) add_vector(hn::LoadU(bytes, more + i), to + i);
}

// Of each element the lower and the upper byte.
template <bool kAdd>
HWY_INLINE void store_both(Vector low, Vector high, uint8_t* to) {
#if HOCKET_EXPANDS
  static constexpr auto kTurns = [] {
    std::array<uint8_t, kWord> places{};
    for (size_t i = 0; i < kWord; ++i) places[i] = static_cast<uint8_t>(i / 2 + i % 2 * kWord);
    return places;
  }();
  const auto first = hn::LoadU(ByteTag(), kTurns.data());
  const auto second = hn::Add(first, hn::Set(ByteTag(), uint8_t{kWord / 2}));
  const auto store = [](__m512i values, uint8_t* where) HWY_ATTR {
    kAdd ? add_vector(Vector{values}, where) : hn::StoreU(Vector{values}, ByteTag(), where);
  };
  store(_mm512_permutex2var_epi8(low.raw, first.raw, high.raw), to);
  store(_mm512_permutex2var_epi8(low.raw, second.raw, high.raw), to + kWord);
#else
  hn::StoreInterleaved2(low, high, ByteTag(), to);
#endif
}

// How many of `count`, a multiple of kWord, are among the seven from `base` on.
HWY_INLINE size_t count_within(const uint8_t* exponents, size_t count, uint8_t base) {
  const ByteTag bytes;
  const auto first = hn::Set(bytes, base), last = hn::SaturatedAdd(first, hn::Set(bytes, uint8_t{6}));
  size_t found = 0;
  for (size_t i = 0; i < count; i += hn::Lanes(bytes)) {
    const auto exponent = hn::Load(bytes, exponents + i);
    found += hn::CountTrue(bytes, hn::Eq(hn::Min(hn::Max(exponent, first), last), exponent));
  }
  return found;
}

// 64 elements: values at `from`, their rest to `rest`, one word of each mask, and, where bytes are compressed, escapes,
// of which it returns the number.
HWY_INLINE size_t split_word(const uint8_t* from, Vector base, uint8_t* rest, uint8_t* masks, size_t mask_bytes,
                             [[maybe_unused]] uint8_t* escapes) {
  const ByteTag bytes;
  size_t found = 0;
  for (size_t i = 0; i < kWord; i += hn::Lanes(bytes)) {
    Vector low, high;
    hn::LoadInterleaved2(bytes, from + 2 * i, low, high);
    const auto exponent = choose_bits(1, shifted_right<7>(low), hn::Add(high, high));
    hn::StoreU(choose_bits(0x80, high, low), bytes, rest + i);
    const auto code = hn::Min(hn::Sub(exponent, base), hn::Set(bytes, uint8_t{7}));
    for (int p = 0; p < 3; ++p) {
      const auto mask = hn::TestBit(code, hn::Set(bytes, static_cast<uint8_t>(1 << p)));
      hn::StoreMaskBits(bytes, mask, masks + static_cast<size_t>(p) * mask_bytes + i / 8);
    }
#if HOCKET_EXPANDS
    // To memory it would take ten times as long on Zen 4.
    const auto escape = hn::Eq(code, hn::Set(bytes, uint8_t{7}));
    hn::StoreU(Vector{_mm512_maskz_compress_epi8(escape.raw, exponent.raw)}, bytes, escapes);
    found += hn::CountTrue(bytes, escape);
#endif
  }
  return found;
}

// ... and back. Returns how many escapes it took.
template <bool kAdd>
HWY_INLINE size_t join_word(const uint8_t* rest, const uint8_t* masks, size_t mask_bytes, Vector base,
                            [[maybe_unused]] const uint8_t* escapes, uint8_t* to) {
  const ByteTag bytes;
  size_t taken = 0;
  for (size_t i = 0; i < kWord; i += hn::Lanes(bytes)) {
    auto exponent = base;
    for (int p = 0; p < 3; ++p) {
      // Masks of few lanes are read by whole bytes, and from a copy, because readers may take more.
      uint64_t bits = 0;
      memcpy(&bits, masks + static_cast<size_t>(p) * mask_bytes + i / 8, (hn::Lanes(bytes) + 7) / 8);
      const auto mask = hn::LoadMaskBits(bytes, reinterpret_cast<const uint8_t*>(&bits));
      const auto more = hn::Add(exponent, hn::Set(bytes, static_cast<uint8_t>(1 << p)));
      exponent = hn::IfThenElse(mask, more, exponent);
    }
#if HOCKET_EXPANDS
    const uint64_t places = escapes_of_word(masks, mask_bytes);
    exponent = Vector{_mm512_mask_expand_epi8(exponent.raw, places, hn::LoadU(bytes, escapes).raw)};
    taken += static_cast<size_t>(std::popcount(places));
#endif
    const auto other = hn::LoadU(bytes, rest + i);
    const auto low = choose_bits(0x7f, other, shifted_left<7>(exponent));
    store_both<kAdd>(low, choose_bits(0x80, other, shifted_right<1>(exponent)), to + 2 * i);
  }
  return taken;
}

#endif  // vectors

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_EXPONENT_WORDS_INL
