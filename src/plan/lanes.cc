// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/lanes.h"

#include <algorithm>

#include "plan/builders.h"
#include "plan/check.h"

namespace hocket {
namespace {

template <typename Use>
void for_each_place(const Plan& plan, const Use& use) {
  for (const Lane& lane : plan.lanes) {
    for (const Step& step : lane.steps) {
      for (const auto* side : {&step.sources, &step.destinations}) {
        for (const Place& place : *side) use(place);
      }
    }
  }
}

// Parts of its chunks lie at one distance from each other.
bool is_even(const Region& region) { return region.count <= 1 || region.block == 1; }

Region part_of(const Region& region, int32_t part, int32_t lanes) {
  if (region.count == 0) return region;
  Region result{.first = region.first * lanes + part, .count = region.count, .stride = region.stride * lanes};
  if (region.block > 1) {
    result.count = region.block;
    result.stride = lanes;
  }
  return result;
}

Place part_of(Place place, int32_t part, int32_t lanes) {
  for (Region& region : place.regions) region = part_of(region, part, lanes);
  return place;
}

// The lanes of one part stand together.
Step part_of(const Step& step, int32_t part, int32_t lanes, int32_t plan_lanes) {
  Step result{.sources = {}, .destinations = {}, .last = step.last, .plain = step.plain, .after = step.after};
  for (const Place& place : step.sources) result.sources.push_back(part_of(place, part, lanes));
  for (const Place& place : step.destinations) result.destinations.push_back(part_of(place, part, lanes));
  for (After& after : result.after) after.lane += part * plan_lanes;
  return result;
}

}  // namespace

int32_t parts_of(const Plan& plan) {
  switch (plan.collective) {
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kScan:
    case Collective::kExScan:
      return plan.send_chunks;
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return plan.recv_chunks;
    case Collective::kAllToAll:
      return std::max(1, plan.send_chunks / plan.ranks);
    default:
      return 1;
  }
}

int32_t most_lanes(const Plan& plan) {
  const Builder* builder = find_builder(plan.collective, plan.algorithm);
  if (builder != nullptr && builder->uses_windows()) return 1;
  if (plan.collective == Collective::kBarrier || plan.ranks == 1) return 1;
  bool can = true;
  for_each_place(plan, [&](const Place& place) { can = can && std::ranges::all_of(place.regions, is_even); });
  const int32_t by_chunks = kMaxChunks / std::max(plan.send_chunks, plan.recv_chunks);
  return can ? std::max(1, std::min(kMaxLanes / static_cast<int32_t>(plan.lanes.size()), by_chunks)) : 1;
}

Plan over_lanes(const Plan& plan, int32_t lanes) {
  Plan result = plan;
  if (lanes == 1) return result;
  result.lanes.clear();
  result.send_chunks *= lanes;
  result.recv_chunks *= lanes;
  result.scratch_chunks *= lanes;
  const auto plan_lanes = static_cast<int32_t>(plan.lanes.size());
  for (int32_t part = 0; part < lanes; ++part) {
    for (const Lane& lane : plan.lanes) {
      Lane& own = result.lanes.emplace_back();
      own.steps.reserve(lane.steps.size());
      for (const Step& step : lane.steps) own.steps.push_back(part_of(step, part, lanes, plan_lanes));
    }
  }
  return result;
}

}  // namespace hocket
