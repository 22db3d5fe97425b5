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
#include <cstring>

#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/select.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::ScalableTag<uint32_t>;

// Magnitudes fit into signed integers, which compare faster.
using Integers = hn::RebindToSigned<Words>;
using WordVector = hn::Vec<Words>;

HWY_INLINE WordVector load(const uint32_t* from) { return hn::LoadU(Words(), from); }
HWY_INLINE WordVector load(const uint16_t* from) {
  return hn::PromoteTo(Words(), hn::LoadU(hn::Rebind<uint16_t, Words>(), from));
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
  // Without a branch: whether a vector holds one of them is a matter of luck.
  const auto take = [&](const Storage* from, size_t first) HWY_ATTR {
    const auto value = load(from);
    const auto magnitude = hn::BitCast(Integers(), hn::And(value, hn::Set(words, kMagnitude)));
    const auto mask = hn::RebindMask(words, hn::Gt(magnitude, below));
    const auto index = hn::Add(numbers, hn::Set(words, static_cast<uint32_t>(first)));
    // Compressed in a register: storing with a compressing instruction is many times slower on some machines.
    hn::StoreU(hn::Compress(index, mask), words, indices + found);
    hn::StoreU(hn::Compress(value, mask), words, bits + found);
    found += hn::CountTrue(words, mask);
  };
  for (; i + lanes <= count && found < room; i += lanes) {
    look_ahead(values + i, count - i);
    take(values + i, i);
  }
  if (i == count || found >= room) return found;
  Storage rest[hn::MaxLanes(words)] = {};
  memcpy(rest, values + i, (count - i) * sizeof(Storage));
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
      const auto magnitude = hn::BitCast(Integers(), hn::And(hn::LoadU(words, bits_ + at), hn::Set(words, mask_)));
      return hn::IfThenElseZero(hn::RebindMask(words, hn::Gt(magnitude, below)), one);
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

  uint32_t largest() const {
    const Words words;
    const size_t lanes = hn::Lanes(words);
    auto most = hn::Zero(words);
    size_t i = 0;
    for (; i + lanes <= count_; i += lanes) {
      most = hn::Max(most, hn::And(hn::LoadU(words, bits_ + i), hn::Set(words, mask_)));
    }
    uint32_t result = hn::GetLane(hn::MaxOfLanes(words, most));
    for (; i < count_; ++i) result = std::max(result, bits_[i] & mask_);
    return result;
  }

 private:
  uint32_t mask_;
  const uint32_t* bits_;
  size_t count_;
};

// By halves of what it can be: each time all are counted, which takes a vector as long as one of them.
uint32_t find_kth_largest(uint32_t mask, const uint32_t* bits, size_t count, size_t k) {
  const Magnitudes magnitudes(mask, bits, count);
  uint32_t least = 0, above = magnitudes.largest() + 1;  // it is from `least` on and below `above`
  while (above - least > 1) {
    const uint32_t middle = least + (above - least) / 2;
    (magnitudes.count_from(middle) >= k ? least : above) = middle;
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
    const auto magnitude = hn::BitCast(Integers(), hn::And(value, hn::Set(words, mask)));
    const auto stays = hn::RebindMask(words, hn::Gt(magnitude, below));
    hn::StoreU(hn::Compress(index, stays), words, indices + kept);
    hn::StoreU(hn::Compress(value, stays), words, bits + kept);
    kept += hn::CountTrue(words, stays);
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
