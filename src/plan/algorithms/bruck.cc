// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Bruck: a chunk that must travel distance d goes through the ones of d in binary, lowest first, together with all
// others that share this way: ceil(log2 n) messages per rank instead of n - 1, each chunk sent several times. Scratch
// chunk d is the one that has distance d to go in all.
#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::bruck {
namespace {

// Scratch chunks whose number has this bit, below `ranks`.
Place with_bit(int32_t bit, Rank ranks) {
  Place place = scratch(0);
  const int32_t whole = ranks / (2 * bit);
  const int32_t rest = ranks % (2 * bit) - bit;
  place.regions.clear();
  if (whole > 0) {
    place.regions.push_back({.first = bit, .count = whole, .stride = whole > 1 ? 2 * bit : 0, .block = bit});
  }
  if (rest > 0) place.regions.push_back({.first = whole * 2 * bit + bit, .count = 1, .stride = 0, .block = rest});
  return place;
}

Place strided(Buffer buffer, int32_t first, int32_t count, int32_t stride) {
  Place place = chunks(buffer, first);
  place.regions[0].count = count;
  place.regions[0].stride = stride;
  return place;
}

}  // namespace

Plan all_to_all(const BuildOptions& options) {
  Plan plan = begin(Collective::kAllToAll, "bruck", options, 1, options.ranks);
  const Rank ranks = options.ranks;
  Lane& lane = plan.lanes[0];
  add(lane, {recv(options.rank)}, {send(options.rank)});
  if (ranks == 1) return plan;
  plan.scratch_chunks = ranks;
  plan.message_chunks = ranks / 2;
  const int32_t even = (ranks - 1) / 2;  // distances 2, 4, ... below ranks
  add(lane, {to(shifted(options, 1))}, {strided(Buffer::kSend, shifted(options, 1), ranks / 2, 2)});
  add(lane, {strided(Buffer::kScratch, 1, ranks / 2, 2)}, {from(shifted(options, -1))});
  if (even > 0)
    add(lane, {strided(Buffer::kScratch, 2, even, 2)}, {strided(Buffer::kSend, shifted(options, 2), even, 2)});
  for (int32_t bit = 2; bit < ranks; bit *= 2) {
    add(lane, {to(shifted(options, bit))}, {with_bit(bit, ranks)});
    add(lane, {with_bit(bit, ranks)}, {from(shifted(options, -bit))});
  }
  add(lane, {strided(Buffer::kRecv, shifted(options, -1), ranks - 1, ranks - 1)}, {scratch(1, ranks - 1)});
  return plan;
}

}  // namespace hocket::plan::bruck
