// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Scatter, then all-gather: the root's data goes out in parts along a binomial tree, a part for each other rank, and
// the circulant all-gather among those brings all parts to all of them. (R. A. van de Geijn et al.; there, the root
// takes part in the all-gather, receives what it knows, and sends twice the bytes.) Here nobody is sent what it holds
// already, also of what it forwarded in the tree: each rank receives the data once, and the root sends it once; others
// send it once and a half at most.
#include <algorithm>

#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/circulant.h"
#include "plan/algorithms/subtree.h"
#include "plan/write.h"

namespace hocket::plan::scatter_all_gather {
namespace {

// The part of the rank at `position` from the root, and those of its subtree after it.
Place parts_of(const Slab& parts, Subtree subtree) { return parts.at(subtree.position - 1, subtree.size); }

// A step of the circulant all-gather, in which the parts that this rank holds begin with its own, R[0]: the receiver
// has `held` of them from the tree.
void gather(Lane& lane, const BuildOptions& options, const Slab& parts, int32_t position) {
  const int32_t members = options.ranks - 1;
  const int32_t own = position - 1;
  const auto held_at = [&](int32_t member) { return subtree_size(wrapped(member, members) + 1, options.ranks); };
  const auto rank_at = [&](int32_t member) { return shifted(options, wrapped(member, members) + 1 - position); };
  const std::vector<int32_t> distance = circulant::distances(members);
  for (size_t round = distance.size() - 1; round-- > 0;) {
    const int32_t skip = distance[round + 1];
    const int32_t count = distance[round] - skip;
    const int32_t known = std::max(0, held_at(own - skip) - skip);
    if (known < count)
      add(lane, {to(rank_at(own - skip))}, {circulant::in_buffer_order(parts, own + known, count - known)});
    const int32_t begin = std::max(skip, held_at(own));
    if (begin < skip + count)
      add(lane, {circulant::in_buffer_order(parts, own + begin, skip + count - begin)}, {from(rank_at(own + skip))});
  }
}

}  // namespace

Plan broadcast(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kBroadcast, "scatter_all_gather", options);
  const int32_t parts = options.ranks - 1;
  Plan plan = begin(Collective::kBroadcast, "scatter_all_gather", options, options.lanes, options.lanes * parts);
  const int32_t position = wrapped(options.rank - options.root, options.ranks);
  plan.message_chunks = std::max(1, parts / 2);
  for (const Subtree& child : children_of(0, options.ranks))
    plan.message_chunks = std::max(plan.message_chunks, child.size);
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    const Slab results{Buffer::kRecv, part * parts, parts};
    const auto rank_of = [&](int32_t other) { return shifted(options, other - position); };
    if (position != 0) {
      const Subtree own{position, subtree_size(position, options.ranks)};
      add(lane, {parts_of(results, own)}, {from(rank_of(parent_position(position)))});
    }
    for (const Subtree& child : children_of(position, options.ranks)) {
      const Place sent = to(rank_of(child.position));
      if (position != 0) add(lane, {sent}, {parts_of(results, child)});
      if (position == 0)
        add(lane, {parts_of(results, child), sent}, {parts_of({Buffer::kSend, part * parts, parts}, child)});
    }
    if (position != 0) gather(lane, options, results, position);
  }
  return plan;
}

}  // namespace hocket::plan::scatter_all_gather
