// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Finding large elements, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/select.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <hwy/highway.h>

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

}  // namespace

void add_selectors_of_target(CodecTable& table) {
  table.collect_words = collect_from<uint32_t>;
  table.collect_halves = collect_from<uint16_t>;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_selectors_of_target);
void add_selectors(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_selectors_of_target)(table); }

}  // namespace hocket::host
#endif
