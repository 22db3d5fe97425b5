// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Double binary tree (P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction
// and scan"): half the data goes over each of two binary trees, and who has children in one has none in the other, so
// that every rank sends and receives all data once. Positions 1 to n behind the root form the first tree: an odd one is
// a leaf, another one's children are half its lowest bit before and behind. The second tree is the first, mirrored
// where n is even and else shifted by one, which makes odd what was even. The root stands above both.
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/tree.h"

namespace hocket::plan::double_tree {
namespace {

constexpr int32_t kTrees = 2;

class Positions {
 public:
  Positions(const BuildOptions& options, Rank root, int32_t tree)
      : ranks_(options.ranks), root_(root), tree_(tree), behind_(options.ranks - 1) {}

  tree::Node node(Rank rank) const {
    const int32_t self = in_first(wrapped(rank - root_, ranks_));
    tree::Node result{.is_root = self == 0, .parent = 0, .children = {}};
    if (self == 0) {
      if (behind_ > 0) result.children = {rank_at(power_of_two_at_most(behind_))};
      return result;
    }
    const int32_t bit = self & -self;
    const int32_t above = (self ^ bit) | (2 * bit);
    result.parent = rank_at(above <= behind_ ? above : self ^ bit);
    if (bit > 1) result.children.push_back(rank_at(self - bit / 2));
    int32_t down = bit / 2;
    while (down > 0 && self + down > behind_) down /= 2;
    if (down > 0) result.children.push_back(rank_at(self + down));
    return result;
  }

 private:
  // The position of the first tree whose place this position takes, and back.
  int32_t in_first(int32_t position) const {
    if (tree_ == 0 || position == 0) return position;
    if (behind_ % 2 == 0) return behind_ + 1 - position;
    return position == 1 ? behind_ : position - 1;
  }
  Rank rank_at(int32_t place) const {
    int32_t position = place;
    if (tree_ == 1 && place != 0) {
      position = behind_ % 2 == 0 ? behind_ + 1 - place : place % behind_ + 1;
    }
    return wrapped(int64_t{root_} + position, ranks_);
  }

  Rank ranks_;
  Rank root_;
  int32_t tree_;
  int32_t behind_;  // positions but the root's
};

}  // namespace

bool fits_all_reduce(const BuildOptions& options) {
  return fits_any(options) && 2 * kTrees * options.lanes <= kMaxLanes;
}

bool fits(const BuildOptions& options) { return fits_any(options) && kTrees * options.lanes <= kMaxLanes; }

Plan all_reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "double_tree", options);
  const int32_t parts = kTrees * options.lanes;
  Plan plan = begin(Collective::kAllReduce, "double_tree", options, 2 * parts, parts);
  for (int32_t part = 0; part < parts; ++part) {
    tree::up_and_down(plan, part, Positions(options, 0, part % kTrees).node(options.rank));
  }
  return plan;
}

Plan broadcast(const BuildOptions& options) {
  const int32_t parts = kTrees * options.lanes;
  Plan plan = begin(Collective::kBroadcast, "double_tree", options, parts, parts);
  for (int32_t part = 0; part < parts; ++part) {
    tree::send_down(plan, part, Positions(options, options.root, part % kTrees).node(options.rank));
  }
  return plan;
}

Plan reduce(const BuildOptions& options) {
  const int32_t parts = kTrees * options.lanes;
  Plan plan = begin(Collective::kReduce, "double_tree", options, parts, parts);
  for (int32_t part = 0; part < parts; ++part) {
    tree::combine_up(plan, part, Positions(options, options.root, part % kTrees).node(options.rank));
  }
  return plan;
}

}  // namespace hocket::plan::double_tree
