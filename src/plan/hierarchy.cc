// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/hierarchy.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket {
namespace {

// The group of every rank.
Result<std::vector<int32_t>> groups_of_ranks(const std::vector<std::vector<Rank>>& groups, size_t level, Rank ranks) {
  std::vector<int32_t> result(static_cast<size_t>(ranks), -1);
  const auto failure = [&](std::string_view what, Rank rank) {
    return Status(Code::kInvalidArgument, fmt::format("level {} of the hierarchy: rank {} {}", level, rank, what));
  };
  for (size_t group = 0; group < groups.size(); ++group) {
    if (groups[group].empty())
      return Status(Code::kInvalidArgument, fmt::format("level {} of the hierarchy: group {} is empty", level, group));
    for (const Rank rank : groups[group]) {
      if (rank < 0 || rank >= ranks) return failure("does not exist", rank);
      int32_t& own = result[static_cast<size_t>(rank)];
      if (own >= 0) return failure("is in two groups", rank);
      own = static_cast<int32_t>(group);
    }
  }
  const auto missing = std::ranges::find(result, -1);
  if (missing != result.end()) return failure("is in no group", static_cast<Rank>(missing - result.begin()));
  return result;
}

}  // namespace

Result<Hierarchy> make_hierarchy(const std::vector<std::vector<std::vector<Rank>>>& levels, Rank ranks) {
  if (levels.empty() || levels.size() > kMaxHierarchy) {
    return Status(Code::kInvalidArgument,
                  fmt::format("a hierarchy has 1 to {} levels, not {}", kMaxHierarchy, levels.size()));
  }
  Hierarchy result;
  for (size_t level = 0; level < levels.size(); ++level) {
    const Result<std::vector<int32_t>> own = groups_of_ranks(levels[level], level, ranks);
    if (!own.ok()) return own.status();
    if (level == 0) {
      result.levels.push_back(levels[0]);
      continue;
    }
    auto& groups = result.levels.emplace_back(levels[level].size());
    for (size_t inner = 0; inner < levels[level - 1].size(); ++inner) {
      const std::vector<Rank>& members = levels[level - 1][inner];
      const int32_t group = (*own)[static_cast<size_t>(members[0])];
      for (const Rank rank : members) {
        if ((*own)[static_cast<size_t>(rank)] == group) continue;
        return Status(Code::kInvalidArgument, fmt::format("level {} of the hierarchy parts ranks {} and {}, which are "
                                                          "together inside",
                                                          level, members[0], rank));
      }
      groups[static_cast<size_t>(group)].push_back(static_cast<int32_t>(inner));
    }
  }
  return result;
}

}  // namespace hocket
