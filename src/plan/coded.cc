// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/coded.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace hocket {
namespace {

// Sends nothing but one place of the receive buffer, as it is.
bool sends_result(const Step& step) {
  if (step.sources.size() != 1 || step.last || step.plain) return false;
  const Place& source = step.sources[0];
  if (is_message(source) || source.buffer != Buffer::kRecv || source.first) return false;
  return !step.destinations.empty() && std::all_of(step.destinations.begin(), step.destinations.end(), is_message);
}

// Each step of its plans sends within groups or between them, never both.
bool stays_or_leaves(const Builder& builder) {
  return builder.name == "hierarchical" || (builder.collective == Collective::kAllToAll && builder.name == "direct");
}

}  // namespace

Plan build(const Builder& builder, const BuildOptions& options) {
  Plan plan = builder.build(options);
  if (!options.coded) return plan;
  if (options.hierarchy != nullptr && stays_or_leaves(builder))
    plan = leave_plain_within(*options.hierarchy, std::move(plan));
  return keep_what_is_sent(std::move(plan));
}

std::vector<int32_t> groups_of(const Hierarchy& hierarchy, Rank ranks) {
  std::vector<int32_t> groups(static_cast<size_t>(ranks));
  std::iota(groups.begin(), groups.end(), 0);
  for (const auto& level : hierarchy.levels) {
    std::vector<int32_t> above(groups.size());
    for (size_t group = 0; group < level.size(); ++group) {
      for (const int32_t member : level[group]) above[static_cast<size_t>(member)] = static_cast<int32_t>(group);
    }
    for (int32_t& group : groups) group = above[static_cast<size_t>(group)];
  }
  return groups;
}

Plan leave_plain_within(const Hierarchy& hierarchy, Plan plan) {
  const std::vector<int32_t> groups = groups_of(hierarchy, plan.ranks);
  const auto is_within = [&](const Place& place) {
    return groups[static_cast<size_t>(place.peer)] == groups[static_cast<size_t>(plan.rank)];
  };
  const auto leaves = [&](const Place& place) { return is_message(place) && !is_within(place); };
  for (Lane& lane : plan.lanes) {
    for (Step& step : lane.steps) {
      step.plain = std::ranges::none_of(step.sources, leaves) && std::ranges::none_of(step.destinations, leaves);
    }
  }
  return plan;
}

Plan keep_what_is_sent(Plan plan) {
  for (Lane& lane : plan.lanes) {
    for (Step& step : lane.steps) {
      if (sends_result(step)) step.destinations.push_back(step.sources[0]);
    }
  }
  return plan;
}

}  // namespace hocket
