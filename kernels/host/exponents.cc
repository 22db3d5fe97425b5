// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Splitting bfloat16 into exponent codes and the rest, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/exponents.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include "kernels/host/lanes-inl.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/exponents.h"
#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

constexpr size_t kWord = 64;

// Where bytes are compressed and expanded, escapes are done with the word that they are of: to find them one by one
// takes longer than all the rest. Else they are done by themselves, after all words.
#define HOCKET_EXPANDS (HWY_TARGET <= HWY_AVX3_DL && HWY_ARCH_X86)

using Element = element::Of<DataType::kBfloat16>;

uint8_t exponent_of(const std::byte* values, size_t i) {
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
Vector broadcast(uint8_t value) { return value; }

size_t count_within(const uint8_t* exponents, size_t count, uint8_t base) {
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) found += exponents[i] >= base && exponents[i] <= base + 6;
  return found;
}

size_t split_word(const uint8_t* from, uint8_t base, uint8_t* rest, uint8_t* masks, size_t mask_bytes, uint8_t*) {
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
void add_word(const uint8_t* more, uint8_t* to) {
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

// Asks for lines that are still far away, two for each word of a frame, whose values are two lines. Where there are
// none it asks for `else_at` again and again, which costs less than to look whether it has to.
class Asking {
 public:
  Asking(std::span<const std::byte> what, size_t words, const std::byte* else_at)
      : at_(what.empty() ? else_at : what.data()), step_(what.size() / words) {}
  HWY_INLINE void ask() {
    ask_for(at_);
    ask_for(at_ + step_ / 2);
    at_ += step_;
  }

 private:
  const std::byte* at_;
  size_t step_;
};

#if !HOCKET_EXPANDS
// Returns how many there are. Two of each word are looked at whether or not there are so many: few words have more, and
// branches that depend on the data cost more.
size_t collect_escapes(const uint8_t* masks, size_t mask_bytes, const std::byte* values, size_t count,
                       uint8_t* escapes) {
  constexpr uint64_t kHighest = uint64_t{1} << 63;
  size_t found = 0;
  for (size_t i = 0; i < count; i += kWord) {
    uint64_t bits = escapes_of_word(masks + i / 8, mask_bytes);
    const auto take_next = [&] {
      escapes[found] = exponent_of(values, i + static_cast<size_t>(std::countr_zero(bits | kHighest)));
      found += bits != 0;
      bits &= bits - 1;
    };
    if (i + kWord <= count) take_next(), take_next();
    while (bits != 0) take_next();
  }
  return found;
}

// Into values that have all else. Returns how many there were.
size_t put_escapes(const uint8_t* masks, size_t mask_bytes, const uint8_t* escapes, size_t count, std::byte* values) {
  size_t seen = 0;
  for (size_t i = 0; i < count; i += kWord) {
    for (uint64_t bits = escapes_of_word(masks + i / 8, mask_bytes); bits != 0; bits &= bits - 1) {
      std::byte* const to = values + 2 * (i + static_cast<size_t>(std::countr_zero(bits)));
      uint16_t value;
      memcpy(&value, to, sizeof value);
      value = static_cast<uint16_t>((value & 0x807f) | escapes[seen++] << 7);
      memcpy(to, &value, sizeof value);
    }
  }
  return seen;
}
#endif

uint8_t choose_base_of(const std::byte* values, size_t count) {
  constexpr size_t kSample = 128;
  alignas(64) uint8_t sample[2 * kSample];
  const size_t stride = std::max<size_t>(1, count / kSample);
  size_t some = 0;
  for (size_t i = 0; i < count; i += stride) sample[some++] = exponent_of(values, i);
  const size_t padded = (some + kWord - 1) / kWord * kWord;
  std::fill(sample + some, sample + padded, sample[0]);
  uint8_t lowest = 255, highest = 0;
  for (size_t i = 0; i < padded; ++i) {
    lowest = std::min(lowest, sample[i]);
    highest = std::max(highest, sample[i]);
  }
  size_t best = lowest, most = 0;
  for (size_t base = lowest; base <= highest; ++base) {
    const size_t added = sample[0] >= base && sample[0] <= base + 6 ? padded - some : 0;
    const size_t covered = count_within(sample, padded, static_cast<uint8_t>(base)) - added;
    if (covered > most) {
      most = covered;
      best = base;
    }
  }
  return static_cast<uint8_t>(best);
}

size_t split_all(const std::byte* values, size_t count, uint8_t base, const ExponentParts<std::byte>& parts,
                 const Upcoming& upcoming) {
  const auto* from = reinterpret_cast<const uint8_t*>(values);
  auto* to = reinterpret_cast<uint8_t*>(parts.rest);
  auto* mask = reinterpret_cast<uint8_t*>(parts.masks);
  auto* escapes = reinterpret_cast<uint8_t*>(parts.escapes);
  const size_t words = (count + kWord - 1) / kWord, mask_bytes = 8 * words;
  const Vector bases = broadcast(base);
  Asking first(upcoming[0], words, values), second(upcoming[1], words, values);
  size_t found = 0;
  const auto split = [&](const uint8_t* word, uint8_t* rest, size_t i) HWY_ATTR {
    found += split_word(word, bases, rest, mask + i / 8, mask_bytes, escapes + found);
  };
  size_t i = 0;
  for (; i + kWord <= count; i += kWord) {
    first.ask();
    second.ask();
    split(from + 2 * i, to + i, i);
  }
  if (i < count) {
    // Elements that are not there have the exponent of code 0.
    uint8_t padded[2 * kWord], last[kWord];
    for (size_t j = 0; j < kWord; ++j) {
      padded[2 * j] = static_cast<uint8_t>(base << 7);
      padded[2 * j + 1] = static_cast<uint8_t>(base >> 1);
    }
    memcpy(padded, from + 2 * i, 2 * (count - i));
    split(padded, last, i);
    memcpy(to + i, last, count - i);
  }
#if !HOCKET_EXPANDS
  found = collect_escapes(mask, mask_bytes, values, count, escapes);
#endif
  return found;
}

// kAdd: only where escapes are expanded.
template <bool kAdd>
size_t join_words(const ExponentParts<const std::byte>& parts, size_t count, uint8_t base, std::byte* values,
                  const Upcoming& upcoming) {
  const auto* from = reinterpret_cast<const uint8_t*>(parts.rest);
  const auto* mask = reinterpret_cast<const uint8_t*>(parts.masks);
  const auto* escapes = reinterpret_cast<const uint8_t*>(parts.escapes);
  auto* to = reinterpret_cast<uint8_t*>(values);
  const size_t words = (count + kWord - 1) / kWord, mask_bytes = 8 * words, rest = count % kWord;
  if (rest != 0 && escapes_of_word(mask + mask_bytes - 8, mask_bytes) >> rest != 0) return kExponentFrame + 1;
  const Vector bases = broadcast(base);
  Asking first(upcoming[0], words, values), second(upcoming[1], words, values);
  size_t i = 0, seen = 0;
  for (; i + kWord <= count; i += kWord) {
    first.ask();
    second.ask();
    seen += join_word<kAdd>(from + i, mask + i / 8, mask_bytes, bases, escapes + seen, to + 2 * i);
  }
  if (rest != 0) {
    uint8_t last[kWord] = {}, padded[2 * kWord] = {};
    memcpy(last, from + i, rest);
    memcpy(padded, to + 2 * i, 2 * rest);
    seen += join_word<kAdd>(last, mask + i / 8, mask_bytes, bases, escapes + seen, padded);
    memcpy(to + 2 * i, padded, 2 * rest);
  }
#if !HOCKET_EXPANDS
  seen = put_escapes(mask, mask_bytes, escapes, count, values);
#endif
  return seen;
}

size_t join_all(const ExponentParts<const std::byte>& parts, size_t count, uint8_t base, bool add, std::byte* values,
                const Upcoming& upcoming) {
  if (!add) return join_words<false>(parts, count, base, values, upcoming);
#if HOCKET_EXPANDS
  return join_words<true>(parts, count, base, values, upcoming);
#else
  alignas(64) std::byte joined[2 * kExponentFrame];
  const size_t seen = join_words<false>(parts, count, base, joined, upcoming);
  const auto* more = reinterpret_cast<const uint8_t*>(joined);
  auto* to = reinterpret_cast<uint8_t*>(values);
  size_t i = 0;
  for (; i + kWord <= count; i += kWord) add_word(more + 2 * i, to + 2 * i);
  if (i == count) return seen;
  uint8_t padded[2 * kWord] = {};
  memcpy(padded, to + 2 * i, 2 * (count - i));
  add_word(more + 2 * i, padded);
  memcpy(to + 2 * i, padded, 2 * (count - i));
  return seen;
#endif
}

}  // namespace

void add_exponents_of_target(CodecTable& table) {
  table.instruction_set = hwy::TargetName(HWY_TARGET);
  table.choose_base = choose_base_of;
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
