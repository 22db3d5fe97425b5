// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One-shot: every rank sends everything to everybody and combines what comes, in rank order; if a codec encodes it,
// each rank adds its own as the others decode it. Two-shot: the same for the chunk that each rank owns, whose result
// then goes to everybody.
#include <utility>

#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::shot {
namespace {

void own_chunk_then_all(Lane& lane, const BuildOptions& options, int32_t base) {
  const int32_t own = base + options.rank;
  for (Rank distance = 1; distance < options.ranks; ++distance) {
    const Rank peer = shifted(options, distance);
    add(lane, {to(peer)}, {first(send(base + peer))});
  }
  // Not one step with the sending of the result: each of two ranks would wait for the other to take its first message.
  finish_split(lane, {recv(own)}, from_all(options, first(send(own))), own);
  spread(lane, to_all_others(options), recv(own));
  for (Rank distance = 1; distance < options.ranks; ++distance) {
    const Rank peer = shifted(options, -distance);
    add(lane, {recv(base + peer)}, {from(peer)});
  }
}

// All messages of a contribution are one step's, so that it is encoded once.
void spread_encoded(Lane& lane, const BuildOptions& options, int32_t part) {
  Places everywhere = to_all_others(options);
  everywhere.push_back(recv(part));
  add(lane, std::move(everywhere), {first(send(part))});
}

}  // namespace

bool fits_all_reduce_one(const BuildOptions& options) {
  return fits_any(options) && (!options.coded || options.ranks <= kMaxDestinations);
}

Plan all_reduce_one(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "one_shot", options);
  Plan plan = begin(Collective::kAllReduce, "one_shot", options, options.lanes, options.lanes);
  plan.scratch_chunks = options.ranks > kMaxSources ? options.lanes : 0;
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    if (options.coded) {
      spread_encoded(lane, options, part);
    } else {
      spread(lane, to_all_others(options), first(send(part)));
    }
    finish_split(lane, {recv(part)}, from_all(options, options.coded ? recv(part) : first(send(part))), part);
  }
  return plan;
}

Plan all_reduce_two(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "two_shot", options);
  const int32_t chunk_count = options.lanes * options.ranks;
  Plan plan = begin(Collective::kAllReduce, "two_shot", options, options.lanes, chunk_count);
  plan.scratch_chunks = options.ranks > kMaxSources ? chunk_count : 0;
  for (int32_t part = 0; part < options.lanes; ++part) {
    own_chunk_then_all(plan.lanes[static_cast<size_t>(part)], options, part * options.ranks);
  }
  return plan;
}

}  // namespace hocket::plan::shot
