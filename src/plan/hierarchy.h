// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which ranks are near each other, for plans that are composed of one algorithm inside groups and another between them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket {

// The members of a group at level 0 are ranks, above that groups of the level below, by number. Each member is in one
// group; groups need not be equally large.
struct Hierarchy {
  using Group = std::vector<int32_t>;
  std::vector<std::vector<Group>> levels;  // innermost first
  std::string_view within = "direct";      // how a group scatters and gathers: direct; of equal groups also ring,
                                           // circulant, and recursive_halving
  std::string_view across = "circulant";   // the all-reduce between the groups of the last level
};

inline constexpr size_t kMaxHierarchy = 8;  // levels

// From lists of ranks at every level, innermost first, as the topology tells them; fails unless every level parts all
// ranks, and no group of a level is torn apart by the next.
Result<Hierarchy> make_hierarchy(const std::vector<std::vector<std::vector<Rank>>>& levels, Rank ranks);

}  // namespace hocket
