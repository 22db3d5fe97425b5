// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Finding large elements, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/select.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/host/copy.h"
#include "kernels/select.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::ScalableTag<uint32_t>;

// Magnitudes fit into signed integers, which compare faster.
using Integers = hn::RebindToSigned<Words>;
using WordVector = hn::Vec<Words>;

// Elements that are looked at together, and how many of them are so many that vectors are the faster way to store them.
constexpr size_t kWord = 64;
constexpr int kMany = 16;

HWY_INLINE WordVector load(const uint32_t* from) { return hn::LoadU(Words(), from); }
HWY_INLINE WordVector load(const uint16_t* from) {
  return hn::PromoteTo(Words(), hn::LoadU(hn::Rebind<uint16_t, Words>(), from));
}

// Which magnitudes of these bits are above `below`.
HWY_INLINE auto reach(WordVector bits, uint32_t mask, hn::Vec<Integers> below) {
  const Words words;
  return hn::RebindMask(words, hn::Gt(hn::BitCast(Integers(), hn::And(bits, hn::Set(words, mask))), below));
}

// Compressed in a register: storing with a compressing instruction is many times slower on some machines. Says how
// many.
template <typename Mask>
HWY_INLINE size_t store_chosen(WordVector index, WordVector value, Mask chosen, uint32_t* indices, uint32_t* bits) {
  const Words words;
  hn::StoreU(hn::Compress(index, chosen), words, indices);
  hn::StoreU(hn::Compress(value, chosen), words, bits);
  return hn::CountTrue(words, chosen);
}

// Which of 64 elements reach, the first in the lowest bit.
template <typename Storage>
HWY_INLINE uint64_t reaching(const Storage* from, uint32_t mask, hn::Vec<Integers> below) {
  const Words words;
  constexpr size_t kLanes = hn::MaxLanes(words);
  uint64_t all = 0;
  for (size_t i = 0; i < kWord; i += kLanes) {
    uint8_t bytes[8] = {};
    hn::StoreMaskBits(words, reach(load(from + i), mask, below), bytes);
    uint64_t some = 0;
    memcpy(&some, bytes, (kLanes + 7) / 8);
    all |= some << i;
  }
  return all;
}

template <typename Storage>
size_t collect_from(const std::byte* bytes, size_t count, uint32_t least, uint32_t* indices, uint32_t* bits,
                    size_t room) {
  const Words words;
  const size_t lanes = hn::Lanes(words);
  const auto* values = reinterpret_cast<const Storage*>(bytes);
  constexpr uint32_t kMagnitude = ~uint32_t{0} >> (33 - 8 * sizeof(Storage));
  const auto below = hn::Set(Integers(), static_cast<int32_t>(least) - 1);
  const auto numbers = hn::Iota(words, 0);
  size_t found = 0, i = 0;
  const auto take = [&](const Storage* from, size_t first) HWY_ATTR {
    const auto value = load(from);
    const auto index = hn::Add(numbers, hn::Set(words, static_cast<uint32_t>(first)));
    found += store_chosen(index, value, reach(value, kMagnitude, below), indices + found, bits + found);
  };
  for (; i + kWord <= count && found < room; i += kWord) {
    for (size_t j = 0; j < kWord; j += 64 / sizeof(Storage)) look_ahead(values + i + j, count - i - j);
    uint64_t word = reaching(values + i, kMagnitude, below);
    if (std::popcount(word) > kMany) {
      for (size_t j = 0; j < kWord; j += lanes) take(values + i + j, i + j);
      continue;
    }
    for (; word != 0; word &= word - 1) {
      const size_t at = i + static_cast<size_t>(std::countr_zero(word));
      Storage value;
      memcpy(&value, bytes + at * sizeof value, sizeof value);
      indices[found] = static_cast<uint32_t>(at);
      bits[found++] = value;
    }
  }
  for (; i + lanes <= count && found < room; i += lanes) take(values + i, i);
  if (i == count || found >= room) return found;
  Storage rest[hn::MaxLanes(words)] = {};
  copy_unaligned(rest, values + i, (count - i) * sizeof(Storage));
  take(rest, i);
  while (found > 0 && indices[found - 1] >= count) --found;
  return found;
}

// Magnitudes of elements that lie one after the other.
class Magnitudes {
 public:
  Magnitudes(uint32_t mask, const uint32_t* bits, size_t count) : mask_(mask), bits_(bits), count_(count) {}

  // At least `limit`, which is not 0.
  size_t count_from(uint32_t limit) const {
    const Words words;
    const size_t lanes = hn::Lanes(words);
    const auto below = hn::Set(Integers(), static_cast<int32_t>(limit) - 1);
    const auto one = hn::Set(words, 1);
    auto counts = hn::Zero(words), others = hn::Zero(words);
    const auto seen = [&](size_t at) HWY_ATTR {
      return hn::IfThenElseZero(reach(hn::LoadU(words, bits_ + at), mask_, below), one);
    };
    size_t i = 0;
    for (; i + 2 * lanes <= count_; i += 2 * lanes) {
      counts = hn::Add(counts, seen(i));
      others = hn::Add(others, seen(i + lanes));
    }
    size_t found = hn::GetLane(hn::SumOfLanes(words, hn::Add(counts, others)));
    for (; i < count_; ++i) found += (bits_[i] & mask_) >= limit ? 1 : 0;
    return found;
  }

  // The smallest of those.
  uint32_t smallest_from(uint32_t limit) const {
    const Words words;
    const size_t lanes = hn::Lanes(words);
    const auto below = hn::Set(Integers(), static_cast<int32_t>(limit) - 1);
    const auto most = hn::Set(words, ~uint32_t{0});
    auto least = most;
    size_t i = 0;
    for (; i + lanes <= count_; i += lanes) {
      const auto some = hn::LoadU(words, bits_ + i);
      const auto magnitude = hn::And(some, hn::Set(words, mask_));
      least = hn::Min(least, hn::IfThenElse(reach(some, mask_, below), magnitude, most));
    }
    uint32_t result = hn::GetLane(hn::MinOfLanes(words, least));
    for (; i < count_; ++i) {
      if ((bits_[i] & mask_) >= limit) result = std::min(result, bits_[i] & mask_);
    }
    return result;
  }

  struct Range {
    uint32_t least, most;
  };
  Range range() const {
    const Words words;
    const size_t lanes = hn::Lanes(words);
    auto least = hn::Set(words, mask_), most = hn::Zero(words);
    size_t i = 0;
    for (; i + lanes <= count_; i += lanes) {
      const auto magnitude = hn::And(hn::LoadU(words, bits_ + i), hn::Set(words, mask_));
      least = hn::Min(least, magnitude);
      most = hn::Max(most, magnitude);
    }
    Range result{hn::GetLane(hn::MinOfLanes(words, least)), hn::GetLane(hn::MaxOfLanes(words, most))};
    for (; i < count_; ++i) {
      result.least = std::min(result.least, bits_[i] & mask_);
      result.most = std::max(result.most, bits_[i] & mask_);
    }
    return result;
  }

 private:
  uint32_t mask_;
  const uint32_t* bits_;
  size_t count_;
};

// By halves of what it can be, until few enough more than k are left: each time all are counted, which takes a vector
// as long as one of them.
uint32_t find_kth_largest(uint32_t mask, const uint32_t* bits, size_t count, size_t k, size_t slack) {
  const Magnitudes magnitudes(mask, bits, count);
  auto [least, most] = magnitudes.range();
  while (most > least) {  // it is one of these and what lies between them
    const uint32_t middle = least + (most - least + 1) / 2;
    const size_t number = magnitudes.count_from(middle);
    if (number >= k && number - k <= slack) return magnitudes.smallest_from(middle);
    if (number > k) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

size_t keep_from(uint32_t mask, uint32_t least, uint32_t* indices, uint32_t* bits, size_t count) {
  const Words words;
  const size_t lanes = hn::Lanes(words);
  size_t kept = 0, i = 0;
  const auto below = hn::Set(Integers(), static_cast<int32_t>(least) - 1);
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(words, bits + i), index = hn::LoadU(words, indices + i);
    kept += store_chosen(index, value, reach(value, mask, below), indices + kept, bits + kept);
  }
  for (; i < count; ++i) {
    indices[kept] = indices[i];
    bits[kept] = bits[i];
    kept += (bits[kept] & mask) >= least ? 1 : 0;
  }
  return kept;
}

}  // namespace

void add_selectors_of_target(CodecTable& table) {
  table.collect_words = collect_from<uint32_t>;
  table.collect_halves = collect_from<uint16_t>;
  table.kth_largest = find_kth_largest;
  table.keep_at_least = keep_from;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_selectors_of_target);
void add_selectors(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_selectors_of_target)(table); }

}  // namespace hocket::host
#endif
