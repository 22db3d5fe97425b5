// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Splitting bfloat16 into exponent codes and the rest, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/exponents.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/exponents.h"
#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/host/exponent_words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

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
