// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Dual root (J. L. Träff, "A Doubly-pipelined, Dual-root Reduction-to-all Algorithm"): each half of the ranks is a
// binary tree in post-order, so that operands combine in rank order. The two roots exchange what their halves give,
// and each sends the result down its own tree. The passes of a long call go up while those before come down.
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/tree.h"

namespace hocket::plan::dual_root {
namespace {

// The tree over ranks [begin, end): its root is the last one, the ranks before are split between two subtrees.
tree::Node node(Rank rank, Rank begin, Rank end) {
  tree::Node result{.is_root = true, .parent = 0, .children = {}};
  while (rank != end - 1) {
    result = {.is_root = false, .parent = end - 1, .children = {}};
    const Rank middle = begin + (end - begin) / 2;
    if (rank < middle) {
      end = middle;
    } else {
      begin = middle;
      --end;
    }
  }
  const Rank middle = begin + (end - begin) / 2;
  if (middle > begin) result.children.push_back(middle - 1);
  if (end - 1 > middle) result.children.push_back(end - 2);
  return result;
}

// The roots: up goes on to the exchange.
void exchange(Plan& plan, int32_t part, const tree::Node& self, const Places& operands, Rank other) {
  Lane& up = plan.lanes[2 * static_cast<size_t>(part)];
  Lane& down = plan.lanes[2 * static_cast<size_t>(part) + 1];
  add(up, {recv(part), to(other)}, operands);
  const bool we_are_earlier = plan.rank < other;
  finish(up, {recv(part)}, we_are_earlier ? Places{recv(part), from(other)} : Places{from(other), recv(part)});
  if (self.children.empty()) return;
  add(down, tree::and_to_children({}, self), {recv(part)}).after = {{.lane = 2 * part, .step = 1}};
}

}  // namespace

bool fits(const BuildOptions& options) { return fits_any(options) && 2 * options.lanes <= kMaxLanes; }

Plan all_reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "dual_root", options);
  Plan plan = begin(Collective::kAllReduce, "dual_root", options, 2 * options.lanes, options.lanes);
  const Rank half = options.ranks / 2;
  const bool lower = options.rank < half;
  const tree::Node self = lower ? node(options.rank, 0, half) : node(options.rank, half, options.ranks);
  for (int32_t part = 0; part < options.lanes; ++part) {
    Places operands = tree::and_children({}, self);
    operands.push_back(first(send(part)));
    if (self.is_root) {
      exchange(plan, part, self, operands, lower ? options.ranks - 1 : half - 1);
      continue;
    }
    add(plan.lanes[2 * static_cast<size_t>(part)], {to(self.parent)}, std::move(operands));
    add(plan.lanes[2 * static_cast<size_t>(part) + 1], tree::and_to_children({recv(part)}, self), {from(self.parent)})
        .after = {{.lane = 2 * part, .step = 0}};
  }
  return plan;
}

}  // namespace hocket::plan::dual_root
