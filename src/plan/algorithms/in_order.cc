// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// In order: a binary tree whose node is the middle of a range of ranks, with the ranks before and after it below. Its
// value is (before + own) + after: operands combine in rank order, and the association depends on the number of ranks
// alone, not on the root, the element or the lane.
#include <optional>

#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::in_order {
namespace {

constexpr Rank middle(Rank begin, Rank end) { return begin + (end - begin) / 2; }

struct Node {
  std::optional<Rank> parent;
  std::optional<Rank> before;
  std::optional<Rank> after;

  Places operands(const Place& own) const {
    Places places;
    if (before) places.push_back(from(*before));
    places.push_back(own);
    if (after) places.push_back(from(*after));
    return places;
  }

  Places with_children(const Place& own) const {
    Places places{own};
    if (before) places.push_back(to(*before));
    if (after) places.push_back(to(*after));
    return places;
  }
};

Node node(const BuildOptions& options) {
  Node result;
  Rank begin = 0;
  Rank end = options.ranks;
  Rank here = middle(begin, end);
  while (here != options.rank) {
    result.parent = here;
    if (options.rank < here) end = here;
    if (options.rank > here) begin = here + 1;
    here = middle(begin, end);
  }
  if (begin < here) result.before = middle(begin, here);
  if (here + 1 < end) result.after = middle(here + 1, end);
  return result;
}

}  // namespace

Plan all_reduce(const BuildOptions& options) {
  Plan plan = begin(Collective::kAllReduce, "in_order", options, options.lanes, options.lanes);
  const Node self = node(options);
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    const Places operands = self.operands(first(send(part)));
    if (!self.parent) {
      finish(lane, self.with_children(recv(part)), operands);
    } else {
      add(lane, {to(*self.parent)}, operands);
      add(lane, self.with_children(recv(part)), {from(*self.parent)});
    }
  }
  return plan;
}

Plan reduce(const BuildOptions& options) {
  Plan plan = begin(Collective::kReduce, "in_order", options, options.lanes, options.lanes);
  const Node self = node(options);
  const Rank top = middle(0, options.ranks);
  const bool is_root = options.rank == options.root;
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    const Places operands = self.operands(first(send(part)));
    if (self.parent) {
      add(lane, {to(*self.parent)}, operands);
    } else {
      finish(lane, {is_root ? recv(part) : to(options.root)}, operands);
    }
    if (is_root && self.parent) add(lane, {recv(part)}, {from(top)});
  }
  return plan;
}

}  // namespace hocket::plan::in_order
