// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Trees of most bandwidth: each joins all seats, and no two share bandwidth. Data goes up and down them, so that each
// takes both directions of its links. Found like the rings: a bounded search from many beginnings, always the same.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/topology.h"
#include "topology/ways.h"

namespace hocket::topology {

inline constexpr size_t kMaxTrees = 32;

struct Trees {
  Reach reach = Reach::kFast;                 // which links they use: the fast ones where these join all seats
  std::vector<std::vector<int32_t>> parents;  // of each tree, by place in seats(); a root has itself
  double tree_gb_per_s = 0;                   // of each
  bool too_large = false;                     // not searched: more than the limits in room.h
  double bound_gb_per_s = 0;                  // no schedule has more bus bandwidth over these links
  int64_t looks = 0;                          // at pairs of seats: what the search took, on every machine the same
  double gb_per_s() const { return tree_gb_per_s * static_cast<double>(parents.size()); }
  // As rings are measured: they move 2 (n - 1) / n of the data in the time in which trees move all of it.
  double bus_gb_per_s() const;
};

// None for one seat, where some seat cannot reach another, or where that takes too long.
Trees find_trees(const Topology& topology);

}  // namespace hocket::topology
