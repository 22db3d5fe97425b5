// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// k-nomial trees. Write a rank's distance from the root in base k: its parent has the lowest digit that is not zero
// cleared, so that a subtree is a range of consecutive ranks and, with root 0, operands combine in rank order. Binomial
// is k = 2. A rank combines all its children's messages with its own data in one step.
#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::tree {
namespace {

constexpr int32_t kBinomial = 2;

struct Node {
  bool is_root = false;
  Rank parent = 0;
  std::vector<Rank> children;  // smallest and nearest subtree first
};

Node node(const BuildOptions& options, int32_t radix, Rank root) {
  const int32_t position = wrapped(options.rank - root, options.ranks);
  const auto rank_at = [&](int64_t place) { return wrapped(root + place, options.ranks); };
  Node result{.is_root = position == 0, .parent = 0, .children = {}};
  int64_t unit = 1;
  for (; unit < options.ranks && position / unit % radix == 0; unit *= radix) {
    for (int32_t digit = 1; digit < radix && position + digit * unit < options.ranks; ++digit) {
      result.children.push_back(rank_at(position + digit * unit));
    }
  }
  if (!result.is_root) result.parent = rank_at(position - position / unit % radix * unit);
  return result;
}

Places and_children(Places places, const Node& node) {
  for (const Rank child : node.children) places.push_back(from(child));
  return places;
}

// The largest subtree first: it takes longest.
Places and_to_children(Places places, const Node& node) {
  for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) places.push_back(to(*child));
  return places;
}

Plan all_reduce(const char* name, const BuildOptions& options, int32_t radix) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, name, options);
  Plan plan = begin(Collective::kAllReduce, name, options, options.lanes, options.lanes);
  const Node self = node(options, radix, 0);
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    if (self.is_root) {
      finish(lane, and_to_children({recv(part)}, self), and_children({first(send(part))}, self));
    } else {
      add(lane, {to(self.parent)}, and_children({first(send(part))}, self));
      add(lane, and_to_children({recv(part)}, self), {from(self.parent)});
    }
  }
  return plan;
}

Plan broadcast(const char* name, const BuildOptions& options, int32_t radix) {
  Plan plan = begin(Collective::kBroadcast, name, options, options.lanes, options.lanes);
  const Node self = node(options, radix, options.root);
  for (int32_t part = 0; part < options.lanes; ++part) {
    add(plan.lanes[static_cast<size_t>(part)], and_to_children({recv(part)}, self),
        {self.is_root ? send(part) : from(self.parent)});
  }
  return plan;
}

Plan reduce(const char* name, const BuildOptions& options, int32_t radix) {
  Plan plan = begin(Collective::kReduce, name, options, options.lanes, options.lanes);
  const Node self = node(options, radix, options.root);
  for (int32_t part = 0; part < options.lanes; ++part) {
    add(plan.lanes[static_cast<size_t>(part)], {self.is_root ? recv(part) : to(self.parent)},
        and_children({first(send(part))}, self))
        .last = self.is_root;
  }
  return plan;
}

}  // namespace

// A rank's children and its own data are sources, or destinations, of one step.
bool fits_knomial(const BuildOptions& options) {
  if (!fits_any(options) || options.radix < 2 || options.radix > kMaxSources) return false;
  int32_t children = 0;
  for (int64_t unit = 1; unit < options.ranks; unit *= options.radix) children += options.radix - 1;
  return children < kMaxSources;
}

Plan all_reduce_binomial(const BuildOptions& options) { return all_reduce("binomial", options, kBinomial); }
Plan all_reduce_knomial(const BuildOptions& options) { return all_reduce("knomial", options, options.radix); }
Plan broadcast_binomial(const BuildOptions& options) { return broadcast("binomial", options, kBinomial); }
Plan broadcast_knomial(const BuildOptions& options) { return broadcast("knomial", options, options.radix); }
Plan reduce_binomial(const BuildOptions& options) { return reduce("binomial", options, kBinomial); }
Plan reduce_knomial(const BuildOptions& options) { return reduce("knomial", options, options.radix); }

}  // namespace hocket::plan::tree
