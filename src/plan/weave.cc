// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/weave.h"

#include <algorithm>
#include <utility>

#include "plan/regions.h"
#include "plan/write.h"

namespace hocket::plan {
namespace {

void raise(std::map<int32_t, int32_t>& lanes, int32_t lane, int32_t step) {
  int32_t& last = lanes.try_emplace(lane, step).first->second;
  last = std::max(last, step);
}

}  // namespace

Weave::Weave(std::vector<Plan> plans) : plans_(std::move(plans)) {
  for (const Plan& plan : plans_) {
    auto& cells = cells_.emplace_back();
    cells[0].resize(static_cast<size_t>(std::max(plan.send_chunks, plan.recv_chunks)));
    cells[1].resize(static_cast<size_t>(plan.scratch_chunks));
  }
}

// The caller's buffers may overlap, as in place: then a rank's own block lies in the larger of them.
Weave::Cell& Weave::cell(Rank rank, Buffer buffer, int32_t chunk) {
  const Plan& plan = plans_[static_cast<size_t>(rank)];
  auto& cells = cells_[static_cast<size_t>(rank)];
  if (buffer == Buffer::kScratch) return cells[1][static_cast<size_t>(chunk)];
  const int32_t own = chunks_of(plan, buffer);
  const bool is_block = own < std::max(plan.send_chunks, plan.recv_chunks);
  return cells[0][static_cast<size_t>(is_block ? rank * own + chunk : chunk)];
}

std::vector<After> Weave::waits(Rank rank, int32_t lane, const Step& step) {
  const Plan& plan = plans_[static_cast<size_t>(rank)];
  Lanes latest;
  const auto wait_for = [&](const Lanes& lanes) {
    for (const auto& [other, last] : lanes) {
      if (other != lane) raise(latest, other, last);
    }
  };
  for (const auto* side : {&step.sources, &step.destinations}) {
    for (const Place& place : *side) {
      for_each_chunk(place.regions, chunks_of(plan, place.buffer), [&](int32_t chunk) {
        const Cell& touched = cell(rank, place.buffer, chunk);
        wait_for(touched.written);
        if (side == &step.destinations) wait_for(touched.read);
      });
    }
  }
  std::vector<After> result;
  result.reserve(latest.size());
  for (const auto& [other, last] : latest) result.push_back({other, last});
  return result;
}

void Weave::note(Rank rank, int32_t lane, const Step& step) {
  const Plan& plan = plans_[static_cast<size_t>(rank)];
  const auto number = static_cast<int32_t>(plan.lanes[static_cast<size_t>(lane)].steps.size());
  for (const Place& place : step.sources) {
    for_each_chunk(place.regions, chunks_of(plan, place.buffer),
                   [&](int32_t chunk) { raise(cell(rank, place.buffer, chunk).read, lane, number); });
  }
  for (const Place& place : step.destinations) {
    for_each_chunk(place.regions, chunks_of(plan, place.buffer),
                   [&](int32_t chunk) { cell(rank, place.buffer, chunk) = {.written = {{lane, number}}, .read = {}}; });
  }
}

void Weave::append(Rank rank, int32_t lane, Step step) {
  step.after = waits(rank, lane, step);
  note(rank, lane, step);
  plans_[static_cast<size_t>(rank)].lanes[static_cast<size_t>(lane)].steps.push_back(std::move(step));
}

std::vector<Plan> Weave::end() {
  for (Plan& plan : plans_) {
    if (plan.scratch_chunks == 0) continue;
    std::vector<After> ends;
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      const std::vector<Step>& steps = plan.lanes[lane].steps;
      if (!steps.empty()) ends.push_back({static_cast<int32_t>(lane), static_cast<int32_t>(steps.size()) - 1});
    }
    for (const After& end : ends) {
      // It moves no chunk.
      Place nothing;
      nothing.buffer = Buffer::kRecv;
      Step& join = add(plan.lanes[static_cast<size_t>(end.lane)], {nothing}, {nothing});
      join.after = ends;
      std::erase(join.after, end);
    }
  }
  return std::move(plans_);
}

}  // namespace hocket::plan
