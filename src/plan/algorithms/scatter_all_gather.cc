// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Scatter, then all-gather: the root's data goes out in parts along a binomial tree, and the circulant all-gather
// brings all parts to all. Twice the least bytes, but each rank carries the same load. (The root receives what it
// knows, and parts that a rank forwarded come to it again: the price of a schedule that is the same for all.)
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/circulant.h"
#include "plan/algorithms/subtree.h"
#include "plan/write.h"

namespace hocket::plan::scatter_all_gather {

Plan broadcast(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kBroadcast, "scatter_all_gather", options);
  Plan plan =
      begin(Collective::kBroadcast, "scatter_all_gather", options, options.lanes, options.lanes * options.ranks);
  plan.message_chunks = options.ranks / 2;
  const int32_t position = wrapped(options.rank - options.root, options.ranks);
  const bool is_root = position == 0;
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    const Slab results{Buffer::kRecv, part * options.ranks, options.ranks};
    const Slab held{is_root ? Buffer::kSend : Buffer::kRecv, part * options.ranks, options.ranks};
    if (!is_root) {
      const Rank parent = shifted(options, parent_position(position) - position);
      add(lane, {held.at(position, subtree_size(position, options.ranks))}, {from(parent)});
    }
    for (const Subtree& child : children_of(position, options.ranks)) {
      add(lane, {to(shifted(options, child.position - position))}, {held.at(child.position, child.size)});
    }
    const Place before = to(shifted(options, -1));
    add(lane, is_root ? Places{results.at(position), before} : Places{before}, {held.at(position)});
    circulant::gather_results(lane, options, results, position);
  }
  return plan;
}

}  // namespace hocket::plan::scatter_all_gather
