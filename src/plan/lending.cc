// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/lending.h"

#include <algorithm>
#include <vector>

#include "plan/builders.h"
#include "plan/regions.h"

namespace hocket {
namespace {

// The chunks of both buffers, those that are the same memory under one number.
class Chunks {
 public:
  Chunks(const Plan& plan, bool in_place) : plan_(plan), in_place_(in_place) {}

  size_t count() const { return static_cast<size_t>(plan_.send_chunks) + static_cast<size_t>(plan_.recv_chunks); }

  std::vector<size_t> of(const Place& place) const {
    std::vector<size_t> numbers;
    if (place.kind != Place::Kind::kChunk || place.buffer == Buffer::kScratch) return numbers;
    for_each_chunk(place.regions, chunks_of(plan_, place.buffer),
                   [&](int32_t chunk) { numbers.push_back(number(place.buffer, chunk)); });
    return numbers;
  }

 private:
  size_t number(Buffer buffer, int32_t chunk) const {
    const auto received = static_cast<size_t>(plan_.recv_chunks);
    if (buffer == Buffer::kRecv) return static_cast<size_t>(chunk) + (in_place_ ? own(Buffer::kRecv) : 0);
    return in_place_ ? static_cast<size_t>(chunk) + own(Buffer::kSend) : received + static_cast<size_t>(chunk);
  }

  // Where the smaller buffer lies in the larger one: at this rank's part.
  size_t own(Buffer buffer) const {
    const int32_t mine = chunks_of(plan_, buffer);
    const int32_t all = std::max(plan_.send_chunks, plan_.recv_chunks);
    return mine == all ? 0 : static_cast<size_t>(plan_.rank) * static_cast<size_t>(mine);
  }

  const Plan& plan_;
  const bool in_place_;
};

// What one rank's lanes write.
class Writes {
 public:
  Writes(const Plan& plan, bool in_place) : chunks_(plan, in_place), last_(chunks_.count()) {
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      const std::vector<Step>& steps = plan.lanes[lane].steps;
      for (size_t step = 0; step < steps.size(); ++step) note(steps[step], lane, step);
    }
  }

  // Whether what the step's messages carry stays where it lies.
  bool leave(const Step& step, size_t lane, size_t number) const {
    if (into_windows_ || !is_free(chunks_read(step), lane, number)) return false;
    // What is received and passed on, or summed, is sent from where it was written.
    return std::ranges::all_of(step.destinations, [&](const Place& place) {
      return is_onto_itself(place, step) || is_free(chunks_.of(place), lane, number + 1);
    });
  }

 private:
  static constexpr size_t kNever = SIZE_MAX;
  struct Write {
    size_t lane = kNever;
    size_t step = 0;  // the last one's
    bool by_several = false;
  };

  void note(const Step& step, size_t lane, size_t number) {
    for (const Place& place : step.destinations) {
      into_windows_ |= place.kind == Place::Kind::kWindow;
      if (is_onto_itself(place, step)) continue;
      for (const size_t chunk : chunks_.of(place)) {
        Write& last = last_[chunk];
        last = {lane, number, last.lane != kNever && (last.by_several || last.lane != lane)};
      }
    }
  }

  // The lane writes them before that step, or nobody does.
  bool is_free(const std::vector<size_t>& chunks, size_t lane, size_t before) const {
    return std::ranges::all_of(chunks, [&](size_t chunk) {
      const Write& last = last_[chunk];
      return last.lane == kNever || (!last.by_several && last.lane == lane && last.step < before);
    });
  }

  // Of a step that copies.
  std::vector<size_t> chunks_read(const Step& step) const {
    return step.sources.size() == 1 ? chunks_.of(step.sources[0]) : std::vector<size_t>{};
  }

  // Nothing is changed then, but by what is done where values enter and leave.
  bool is_onto_itself(const Place& place, const Step& step) const {
    const std::vector<size_t> written = chunks_.of(place);
    return written.empty() || (written == chunks_read(step) && !step.last && !step.sources[0].first);
  }

  const Chunks chunks_;
  std::vector<Write> last_;  // by chunk
  bool into_windows_ = false;
};

bool sends(const Step& step) { return std::ranges::any_of(step.destinations, is_message); }

}  // namespace

void mark_what_stays(Plan& plan, bool in_place) {
  const Writes writes(plan, in_place);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    std::vector<Step>& steps = plan.lanes[lane].steps;
    for (size_t i = 0; i < steps.size(); ++i) steps[i].stays = sends(steps[i]) && writes.leave(steps[i], lane, i);
  }
}

bool may_lend(const Plan& plan, bool in_place) {
  if (is_reducing(plan.collective)) return false;
  const Writes writes(plan, in_place);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const std::vector<Step>& steps = plan.lanes[lane].steps;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (sends(steps[i]) && !writes.leave(steps[i], lane, i)) return false;
    }
  }
  return true;
}

bool works_beside(const Plan& plan, bool in_place) {
  const auto is_chunk = [](const Place& place) { return place.kind == Place::Kind::kChunk; };
  for (const Lane& lane : plan.lanes) {
    for (const Step& step : lane.steps) {
      if (std::ranges::any_of(step.sources, is_message)) return true;
      if (!in_place && std::ranges::any_of(step.destinations, is_chunk)) return true;
    }
  }
  return false;
}

}  // namespace hocket
