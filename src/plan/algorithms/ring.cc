// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Ring: every message goes to the next rank. Reduce-scatter carries chunk c once around, ending at its owner c, each
// rank adding its own on the way; all-gather carries the results once around. Least bytes, most rounds.
#include "plan/algorithms/ring.h"

#include "plan/algorithms/algorithms.h"

namespace hocket::plan::ring {
namespace {

// All but the last step, in which the owner's own contribution completes its chunk.
void pass_partials(Lane& lane, const BuildOptions& options, const Slab& mine) {
  const Place next = to(shifted(options, 1));
  const Place previous = from(shifted(options, -1));
  add(lane, {next}, {first(mine.at(options.rank - 1))});
  for (Rank step = 1; step < options.ranks - 1; ++step) {
    add(lane, {next}, {previous, first(mine.at(options.rank - 1 - step))});
  }
}

}  // namespace

void pass_results(Lane& lane, const BuildOptions& options, const Slab& results) {
  const Place next = to(shifted(options, 1));
  const Place previous = from(shifted(options, -1));
  for (Rank step = 1; step < options.ranks - 1; ++step) {
    add(lane, {results.at(options.rank - step), next}, {previous});
  }
  add(lane, {results.at(options.rank + 1)}, {previous});
}

Plan all_reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "ring", options);
  Plan plan = begin(Collective::kAllReduce, "ring", options, options.lanes, options.lanes * options.ranks);
  plan.depth = kDepth;
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    const Slab mine{Buffer::kSend, part * options.ranks, options.ranks};
    const Slab results{Buffer::kRecv, part * options.ranks, options.ranks};
    pass_partials(lane, options, mine);
    finish(lane, {results.at(options.rank), to(shifted(options, 1))},
           {from(shifted(options, -1)), first(mine.at(options.rank))});
    pass_results(lane, options, results);
  }
  return plan;
}

Plan reduce_scatter(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kReduceScatter, "ring", options);
  Plan plan = begin(Collective::kReduceScatter, "ring", options);
  plan.depth = kDepth;
  plan.send_chunks = options.ranks;
  const Slab mine{Buffer::kSend, 0, options.ranks};
  pass_partials(plan.lanes[0], options, mine);
  finish(plan.lanes[0], {recv(0)}, {from(shifted(options, -1)), first(mine.at(options.rank))});
  return plan;
}

Plan all_gather(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllGather, "ring", options);
  Plan plan = begin(Collective::kAllGather, "ring", options);
  plan.depth = kDepth;
  plan.recv_chunks = options.ranks;
  add(plan.lanes[0], {recv(options.rank), to(shifted(options, 1))}, {send(0)});
  pass_results(plan.lanes[0], options, {Buffer::kRecv, 0, options.ranks});
  return plan;
}

}  // namespace hocket::plan::ring
