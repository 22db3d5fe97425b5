// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/embed.h"

#include <vector>

namespace hocket::plan {
namespace {

Place translated(Place place, const Embedding& embedding) {
  if (place.kind == Place::Kind::kMessage) {
    place.peer = embedding.members[static_cast<size_t>(place.peer)];
    return place;
  }
  const Lying& lying = place.buffer == Buffer::kSend   ? embedding.send
                       : place.buffer == Buffer::kRecv ? embedding.recv
                                                       : embedding.scratch;
  place.buffer = lying.buffer;
  place.first = place.first && embedding.first;
  for (Region& region : place.regions) {
    region.first = lying.base + region.first * embedding.block;
    region.stride *= embedding.block;
    region.block *= embedding.block;
  }
  return place;
}

Step translated(const Step& step, const Embedding& embedding, const std::vector<size_t>& done) {
  Step result;
  for (const Place& place : step.sources) result.sources.push_back(translated(place, embedding));
  for (const Place& place : step.destinations) result.destinations.push_back(translated(place, embedding));
  result.last = step.last && embedding.last;
  for (const After& after : step.after) {
    const auto lane = embedding.first_lane + static_cast<size_t>(after.lane);
    result.after.push_back({static_cast<int32_t>(lane), after.step + static_cast<int32_t>(done[lane])});
  }
  return result;
}

// Buffers of the part may lie in one place: a copy to itself says nothing. Steps stay, since others count them.
void drop_copy_to_itself(Step& step) {
  if (step.sources.size() != 1 || step.destinations.size() < 2) return;
  std::erase(step.destinations, step.sources[0]);
}

}  // namespace

void embed(Plan& plan, const Plan& part, const Embedding& embedding) {
  std::vector<size_t> done;
  for (const Lane& lane : plan.lanes) done.push_back(lane.steps.size());
  for (size_t lane = 0; lane < part.lanes.size(); ++lane) {
    for (const Step& step : part.lanes[lane].steps) {
      Step own = translated(step, embedding, done);
      drop_copy_to_itself(own);
      plan.lanes[embedding.first_lane + lane].steps.push_back(std::move(own));
    }
  }
}

PartBegin::PartBegin(Plan& plan, size_t first_lane, size_t lanes) : plan_(plan), first_lane_(first_lane) {
  for (size_t lane = first_lane; lane < first_lane + lanes; ++lane) done_.push_back(plan.lanes[lane].steps.size());
}

void PartBegin::order() {
  for (size_t lane = 0; lane < done_.size(); ++lane) {
    std::vector<Step>& steps = plan_.lanes[first_lane_ + lane].steps;
    if (steps.size() == done_[lane]) continue;
    for (size_t other = 0; other < done_.size(); ++other) {
      if (other == lane || done_[other] == 0) continue;
      steps[done_[lane]].after.push_back(
          {static_cast<int32_t>(first_lane_ + other), static_cast<int32_t>(done_[other]) - 1});
    }
  }
}

}  // namespace hocket::plan
