// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Trees as a search of the topology found them, each with its share of the data: an all-reduce goes up and down each
// of them, so that both directions of every link that it uses are busy. A tree has no direction of its own: broadcasts
// and reductions turn it until the call's root stands above all.
#include <algorithm>
#include <utility>
#include <vector>

#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/tree.h"

namespace hocket::plan::routed_trees {
namespace {

using Parents = std::vector<Rank>;

Rank parent_of(const Parents& parents, Rank rank) { return parents[static_cast<size_t>(rank)]; }

// One rank is its own parent, and all others come to it.
bool is_tree(const Parents& parents, Rank ranks) {
  if (parents.size() != static_cast<size_t>(ranks)) return false;
  Parents above = parents;
  const auto exists = [&](Rank rank) { return rank >= 0 && rank < ranks; };
  if (!std::ranges::all_of(parents, exists)) return false;
  for (Rank reach = 1; reach < ranks; reach *= 2) {  // now everybody's ancestor so many generations ago
    Parents next = above;
    for (Rank& rank : next) rank = parent_of(above, rank);
    above = std::move(next);
  }
  const Rank root = above[0];
  return parent_of(parents, root) == root && std::ranges::count(above, root) == ranks;
}

// What hangs below each rank, itself included.
std::vector<Rank> subtrees(const Parents& parents) {
  std::vector<Rank> sizes(parents.size(), 0);
  for (size_t rank = 0; rank < parents.size(); ++rank) {
    for (auto above = static_cast<Rank>(rank);; above = parent_of(parents, above)) {
      ++sizes[static_cast<size_t>(above)];
      if (parent_of(parents, above) == above) break;
    }
  }
  return sizes;
}

// The same tree below another root: the ranks between the two change sides.
Parents turned(Parents parents, Rank root) {
  for (Rank below = root, rank = root;;) {
    const Rank above = std::exchange(parents[static_cast<size_t>(rank)], below);
    if (above == rank) return parents;
    below = rank;
    rank = above;
  }
}

tree::Node node(const Parents& parents, Rank rank) {
  tree::Node self{.is_root = parent_of(parents, rank) == rank, .parent = parent_of(parents, rank), .children = {}};
  for (Rank child = 0; child < static_cast<Rank>(parents.size()); ++child) {
    if (child != rank && parent_of(parents, child) == rank) self.children.push_back(child);
  }
  const std::vector<Rank> sizes = subtrees(parents);
  std::ranges::stable_sort(self.children, {}, [&](Rank child) { return sizes[static_cast<size_t>(child)]; });
  return self;
}

int32_t parts_of(const BuildOptions& options) { return static_cast<int32_t>(options.trees.size()) * options.lanes; }

// Part p goes over the p-th tree, and around again.
const Parents& tree_of(const BuildOptions& options, int32_t part) {
  return options.trees[static_cast<size_t>(part) % options.trees.size()];
}

bool fits_in(const BuildOptions& options, size_t lanes) {
  const size_t parts = options.trees.size() * static_cast<size_t>(options.lanes);
  return fits_any(options) && options.ranks > 1 && parts > 0 && lanes * parts <= kMaxLanes &&
         std::ranges::all_of(options.trees, [&](const Parents& parents) {
           if (!is_tree(parents, options.ranks)) return false;
           std::vector<int> children(parents.size(), 0);
           for (const Rank parent : parents) ++children[static_cast<size_t>(parent)];
           return std::ranges::max(children) < kMaxSources;  // a step takes what all of them send, and our own
         });
}

// Every tree turned to the call's root.
template <typename Write>
Plan to_or_from_root(Collective collective, const BuildOptions& options, Write write) {
  const int32_t parts = parts_of(options);
  Plan plan = begin(collective, "routed_trees", options, parts, parts);
  for (int32_t part = 0; part < parts; ++part) {
    write(plan, part, node(turned(tree_of(options, part), options.root), options.rank));
  }
  return plan;
}

}  // namespace

bool fits_all_reduce(const BuildOptions& options) { return fits_in(options, 2); }
bool fits(const BuildOptions& options) { return fits_in(options, 1); }

Plan all_reduce(const BuildOptions& options) {
  const int32_t parts = parts_of(options);
  Plan plan = begin(Collective::kAllReduce, "routed_trees", options, 2 * parts, parts);
  for (int32_t part = 0; part < parts; ++part) {
    tree::up_and_down(plan, part, node(tree_of(options, part), options.rank));
  }
  return plan;
}

Plan broadcast(const BuildOptions& options) {
  return to_or_from_root(Collective::kBroadcast, options, tree::send_down);
}
Plan reduce(const BuildOptions& options) { return to_or_from_root(Collective::kReduce, options, tree::combine_up); }

}  // namespace hocket::plan::routed_trees
