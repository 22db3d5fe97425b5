// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Bine trees (D. De Sensi et al., "Bine Trees: Enhancing Collective Operations by Optimizing Communication Locality"):
// binomial trees whose edges are a third shorter. Write a rank's distance from the root in base -2 and take the Gray
// code of that: among these labels the tree is the binomial one, whose parent lacks the lowest bit. Its edges go 1, 1,
// 3, 5, 11, ... ranks far, to both sides, where the common tree's go 1, 2, 4, 8, 16. Numbers of ranks that are no power
// of two fold to one.
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/fold.h"
#include "plan/algorithms/tree.h"

namespace hocket::plan::bine {
namespace {

constexpr uint32_t kOddBits = 0xAAAAAAAAU;

uint32_t label_of(uint32_t member, uint32_t members) {
  const uint32_t negabinary = ((member + kOddBits) ^ kOddBits) & (members - 1);
  return negabinary ^ (negabinary >> 1);
}

uint32_t member_of(uint32_t label, uint32_t members) {
  uint32_t negabinary = label;
  for (uint32_t shift = 1; shift < 32; shift *= 2) negabinary ^= negabinary >> shift;
  return ((negabinary ^ kOddBits) - kOddBits) & (members - 1);
}

tree::Node node(const BuildOptions& options, Rank root) {
  const auto rank_at = [&](int32_t position) { return wrapped(int64_t{root} + position, options.ranks); };
  BuildOptions turned = options;
  turned.rank = wrapped(options.rank - root, options.ranks);
  const Fold fold(turned);
  if (!fold.is_member()) return {.is_root = false, .parent = rank_at(fold.partner()), .children = {}};
  const auto members = static_cast<uint32_t>(fold.members());
  const uint32_t label = label_of(static_cast<uint32_t>(fold.member()), members);
  const auto rank_with = [&](uint32_t other) {
    return rank_at(fold.rank_of(static_cast<int32_t>(member_of(other, members))));
  };
  tree::Node result{.is_root = label == 0, .parent = 0, .children = {}};
  if (fold.paired()) result.children.push_back(rank_at(fold.partner()));
  const uint32_t lowest = label == 0 ? members : label & (0U - label);
  for (uint32_t bit = 1; bit < lowest; bit *= 2) result.children.push_back(rank_with(label | bit));
  if (label != 0) result.parent = rank_with(label & (label - 1));
  return result;
}

}  // namespace

Plan all_reduce(const BuildOptions& options) { return tree::all_reduce("bine", options, node(options, 0)); }
Plan broadcast(const BuildOptions& options) { return tree::broadcast("bine", options, node(options, options.root)); }
Plan reduce(const BuildOptions& options) { return tree::reduce("bine", options, node(options, options.root)); }

}  // namespace hocket::plan::bine
