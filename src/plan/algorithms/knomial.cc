// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// k-nomial trees. Write a rank's distance from the root in base k: its parent has the lowest digit that is not zero
// cleared, so that a subtree is a range of consecutive ranks and, with root 0, operands combine in rank order. Binomial
// is k = 2.
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/tree.h"

namespace hocket::plan::knomial {
namespace {

constexpr int32_t kBinomial = 2;

tree::Node node(const BuildOptions& options, int32_t radix, Rank root) {
  const int32_t position = wrapped(options.rank - root, options.ranks);
  const auto rank_at = [&](int64_t place) { return wrapped(root + place, options.ranks); };
  tree::Node result{.is_root = position == 0, .parent = 0, .children = {}};
  int64_t unit = 1;
  for (; unit < options.ranks && position / unit % radix == 0; unit *= radix) {
    for (int32_t digit = 1; digit < radix && position + digit * unit < options.ranks; ++digit) {
      result.children.push_back(rank_at(position + digit * unit));
    }
  }
  if (!result.is_root) result.parent = rank_at(position - position / unit % radix * unit);
  return result;
}

}  // namespace

// A rank's children and its own data are sources, or destinations, of one step.
bool fits(const BuildOptions& options) {
  if (!fits_any(options) || options.radix < 2 || options.radix > kMaxSources) return false;
  int32_t children = 0;
  for (int64_t unit = 1; unit < options.ranks; unit *= options.radix) children += options.radix - 1;
  return children < kMaxSources;
}

Plan all_reduce(const BuildOptions& options) {
  return tree::all_reduce("knomial", options, node(options, options.radix, 0));
}
Plan broadcast(const BuildOptions& options) {
  return tree::broadcast("knomial", options, node(options, options.radix, options.root));
}
Plan reduce(const BuildOptions& options) {
  return tree::reduce("knomial", options, node(options, options.radix, options.root));
}
Plan all_reduce_binomial(const BuildOptions& options) {
  return tree::all_reduce("binomial", options, node(options, kBinomial, 0));
}
Plan broadcast_binomial(const BuildOptions& options) {
  return tree::broadcast("binomial", options, node(options, kBinomial, options.root));
}
Plan reduce_binomial(const BuildOptions& options) {
  return tree::reduce("binomial", options, node(options, kBinomial, options.root));
}

}  // namespace hocket::plan::knomial
