// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pairwise exchange: each rank talks to one other at a time, so that no link is shared and no receiver is crowded.
// All-to-all: in round i, ranks whose sum is i (modulo their number) exchange their chunks, and a chunk is overwritten
// only after it has been sent. All-reduce: in round i, each rank sends to the i-th after it what belongs to that one,
// and adds what comes from the i-th before; the results then go once around the ring. No value passes more than two
// codecs.
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/ring.h"
#include "plan/write.h"

namespace hocket::plan::pairwise {
namespace {

// While one half waits for what comes, the other one sends.
constexpr int32_t kHalves = 2;

void collect_own(Lane& lane, const BuildOptions& options, const Slab& mine, const Place& result) {
  const Rank last = options.ranks - 1;
  Place sum = first(mine.at(options.rank));
  for (Rank distance = 1; distance <= last; ++distance) {
    const Rank receiver = shifted(options, distance);
    add(lane, {to(receiver)}, {first(mine.at(receiver))});
    add(lane, {result}, {sum, from(shifted(options, -distance))}).last = distance == last;
    sum = result;
  }
}

}  // namespace

bool fits_all_reduce(const BuildOptions& options) { return fits_any(options) && kHalves * options.lanes <= kMaxLanes; }

Plan all_reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "pairwise", options);
  const int32_t parts = kHalves * options.lanes;
  Plan plan = begin(Collective::kAllReduce, "pairwise", options, parts, parts * options.ranks);
  plan.depth = ring::kDepth;
  for (int32_t part = 0; part < parts; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    const Slab mine{Buffer::kSend, part * options.ranks, options.ranks};
    const Slab results{Buffer::kRecv, part * options.ranks, options.ranks};
    const Place own = results.at(options.rank);
    collect_own(lane, options, mine, own);
    add(lane, {to(shifted(options, 1))}, {own});
    ring::pass_results(lane, options, results);
  }
  return plan;
}

Plan all_to_all(const BuildOptions& options) {
  Plan plan = begin(Collective::kAllToAll, "pairwise", options, 1, options.ranks);
  Lane& lane = plan.lanes[0];
  for (Rank round = 0; round < options.ranks; ++round) {
    const Rank peer = wrapped(round - options.rank, options.ranks);
    if (peer == options.rank) {
      add(lane, {recv(peer)}, {send(peer)});
    } else {
      add(lane, {to(peer)}, {send(peer)});
      add(lane, {recv(peer)}, {from(peer)});
    }
  }
  return plan;
}

}  // namespace hocket::plan::pairwise
