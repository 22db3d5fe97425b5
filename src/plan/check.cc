// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "plan/regions.h"
#include "plan/text.h"

namespace hocket {
namespace {

// A reason, or none.
using Fault = std::optional<std::string>;

Fault out_of_range(std::string_view what, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return std::nullopt;
  return fmt::format("{} is {}, not {} to {}", what, value, low, high);
}

Fault check_numbers(const Plan& plan) {
  if (auto fault = out_of_range("number of ranks", plan.ranks, 1, kMaxRanks)) return fault;
  if (auto fault = out_of_range("rank", plan.rank, 0, plan.ranks - 1)) return fault;
  if (auto fault = out_of_range("root", plan.root, 0, plan.ranks - 1)) return fault;
  if (auto fault = out_of_range("number of send chunks", plan.send_chunks, 1, kMaxChunks)) return fault;
  if (auto fault = out_of_range("number of receive chunks", plan.recv_chunks, 1, kMaxChunks)) return fault;
  if (auto fault = out_of_range("number of scratch chunks", plan.scratch_chunks, 0, kMaxChunks)) return fault;
  if (auto fault = out_of_range("number of chunks in a message", plan.message_chunks, 1, kMaxChunks)) return fault;
  if (auto fault = out_of_range("depth", plan.depth, 1, kMaxDepth)) return fault;
  if (auto fault = out_of_range("number of lanes", static_cast<int64_t>(plan.lanes.size()), 0, kMaxLanes)) return fault;
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (plan.algorithm.empty() || plan.algorithm.size() > kMaxAlgorithmName ||
      !std::ranges::all_of(plan.algorithm, plain)) {
    return fmt::format("algorithm name is not 1 to {} letters a-z, digits or _", kMaxAlgorithmName);
  }
  return std::nullopt;
}

class StepCheck {
 public:
  StepCheck(const Plan& plan, const Step& step) : plan_(plan), step_(step) {}

  Fault run() {
    if (auto fault = check_lists()) return fault;
    for (const Place& place : step_.sources) {
      if (auto fault = check_place(place)) return fault;
    }
    for (const Place& place : step_.destinations) {
      if (place.first) return "a destination is marked first";
      if (auto fault = check_place(place)) return fault;
    }
    if (auto fault = check_peers(step_.sources, "source")) return fault;
    if (auto fault = check_peers(step_.destinations, "destination")) return fault;
    if (extent_.value_or(0) == 0) return step_.last ? Fault("a signal is marked last") : std::nullopt;
    if (step_.sources.empty() || step_.destinations.empty()) return "bytes without a source or without a destination";
    return check_overlaps();
  }

 private:
  Fault check_lists() const {
    if (step_.sources.size() > kMaxSources) {
      return fmt::format("{} sources exceed the limit of {}", step_.sources.size(), kMaxSources);
    }
    if (step_.destinations.size() > kMaxDestinations) {
      return fmt::format("{} destinations exceed the limit of {}", step_.destinations.size(), kMaxDestinations);
    }
    if (step_.sources.empty() && step_.destinations.empty()) return "the step does nothing";
    return std::nullopt;
  }

  Fault check_place(const Place& place) {
    if (place.kind == Place::Kind::kMessage) return check_message(place);
    if (place.kind == Place::Kind::kWindow) {
      if (auto fault = check_window(place)) return fault;
    }
    if (place.regions.size() > kMaxRegions) {
      return fmt::format("{} regions exceed the limit of {}", place.regions.size(), kMaxRegions);
    }
    const int32_t chunks = chunks_of(plan_, place.buffer);
    for (const Region& region : place.regions) {
      if (auto fault = out_of_range("first chunk", region.first, 0, int64_t{chunks} - 1)) return fault;
      if (auto fault = out_of_range("number of blocks", region.count, 0, chunks)) return fault;
      if (auto fault = out_of_range("length of a block", region.block, 1, chunks)) return fault;
      if (auto fault = out_of_range("stride", region.stride, -int64_t{kMaxChunks}, kMaxChunks)) return fault;
    }
    const int64_t count = chunk_count(place.regions);
    if (auto fault = out_of_range("number of chunks of a place", count, 0, chunks)) return fault;
    if (extent_ && *extent_ != count)
      return fmt::format("places of {} and {} chunks do not fit together", *extent_, count);
    extent_ = count;
    return std::nullopt;
  }

  Fault check_message(const Place& place) const {
    if (auto fault = out_of_range("peer", place.peer, 0, plan_.ranks - 1)) return fault;
    if (place.peer == plan_.rank) return "a message goes to or comes from its own rank";
    if (place.first) return "a message is marked first";
    if (!place.regions.empty()) return "a message has regions";
    return std::nullopt;
  }

  Fault check_window(const Place& place) const {
    if (auto fault = out_of_range("peer", place.peer, 0, plan_.ranks - 1)) return fault;
    if (place.peer == plan_.rank) return "a window is that of its own rank";
    if (place.buffer == Buffer::kScratch) return "a window is of scratch";
    return std::nullopt;
  }

  static Fault check_peers(const std::vector<Place>& places, std::string_view side) {
    std::vector<Rank> peers;
    for (const Place& place : places) {
      if (place.kind == Place::Kind::kMessage) peers.push_back(place.peer);
    }
    std::ranges::sort(peers);
    const auto twice = std::ranges::adjacent_find(peers);
    if (twice == peers.end()) return std::nullopt;
    return fmt::format("rank {} is a {} twice", *twice, side);
  }

  std::vector<int32_t> chunks(const Place& place) const {
    std::vector<int32_t> result;
    for_each_chunk(place.regions, chunks_of(plan_, place.buffer), [&](int32_t chunk) { result.push_back(chunk); });
    return result;
  }

  // Most places are one block: no need to list its chunks.
  bool is_block(const Place& place) const {
    if (place.regions.size() != 1 || place.regions[0].count != 1) return false;
    return place.regions[0].first + place.regions[0].block <= chunks_of(plan_, place.buffer);
  }

  bool names_a_chunk_twice(const Place& place) const {
    if (is_block(place)) return false;
    std::vector<int32_t> list = chunks(place);
    std::ranges::sort(list);
    return std::ranges::adjacent_find(list) != list.end();
  }

  bool overlap(const Place& one, const Place& other) const {
    if (is_block(one) && is_block(other)) {
      const Region& a = one.regions[0];
      const Region& b = other.regions[0];
      return a.first < b.first + b.block && b.first < a.first + a.block;
    }
    std::vector<int32_t> these = chunks(one);
    std::vector<int32_t> those = chunks(other);
    std::ranges::sort(these);
    std::ranges::sort(those);
    std::vector<int32_t> common;
    std::ranges::set_intersection(these, those, std::back_inserter(common));
    return !common.empty();
  }

  Fault check_overlaps() const {
    for (size_t i = 0; i < step_.destinations.size(); ++i) {
      const Place& written = step_.destinations[i];
      if (!written.names_chunks()) continue;
      if (names_a_chunk_twice(written)) return fmt::format("{} names a chunk twice", to_text(written));
      for (size_t j = 0; j < i; ++j) {
        const Place& other = step_.destinations[j];
        if (in_same_buffer(written, other) && overlap(written, other)) {
          return fmt::format("destinations {} and {} overlap", to_text(other), to_text(written));
        }
      }
      for (const Place& read : step_.sources) {
        if (!in_same_buffer(written, read) || read.regions == written.regions) continue;
        if (overlap(written, read) && chunks(written) != chunks(read)) {
          return fmt::format("source {} overlaps destination {} otherwise than chunk by chunk", to_text(read),
                             to_text(written));
        }
      }
    }
    return std::nullopt;
  }

  bool in_same_buffer(const Place& one, const Place& other) const {
    return other.names_chunks() && one.buffer == other.buffer && one.owner(plan_.rank) == other.owner(plan_.rank);
  }

  const Plan& plan_;
  const Step& step_;
  std::optional<int64_t> extent_;  // chunks per place, once known
};

int64_t chunks_named(const Step& step) {
  int64_t count = 0;
  for (const Place& place : step.sources) count += chunk_count(place.regions);
  for (const Place& place : step.destinations) count += chunk_count(place.regions);
  return count;
}

Fault check_waits_exist(const Plan& plan, size_t lane, const Step& step) {
  if (step.after.size() > kMaxAfter)
    return fmt::format("{} waits exceed the limit of {}", step.after.size(), kMaxAfter);
  for (const After& after : step.after) {
    if (after.lane < 0 || static_cast<size_t>(after.lane) >= plan.lanes.size() || after.step < 0 ||
        static_cast<size_t>(after.step) >= plan.lanes[static_cast<size_t>(after.lane)].steps.size()) {
      return fmt::format("it waits for {}.{}, which does not exist", after.lane, after.step);
    }
    if (static_cast<size_t>(after.lane) == lane)
      return fmt::format("it waits for {}.{} of its own lane", after.lane, after.step);
  }
  return std::nullopt;
}

// Runs the lanes without messages: what does not end waits in a circle. Returns the first such lane.
std::optional<size_t> circular_wait(const Plan& plan, std::vector<size_t>& done) {
  done.assign(plan.lanes.size(), 0);
  const auto may_go = [&](const Step& step) {
    return std::ranges::all_of(step.after, [&](const After& after) {
      return done[static_cast<size_t>(after.lane)] > static_cast<size_t>(after.step);
    });
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      const auto& steps = plan.lanes[lane].steps;
      for (; done[lane] < steps.size() && may_go(steps[done[lane]]); ++done[lane]) moved = true;
    }
  }
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (done[lane] < plan.lanes[lane].steps.size()) return lane;
  }
  return std::nullopt;
}

}  // namespace

Status check(const Plan& plan) {
  if (auto fault = check_numbers(plan))
    return {Code::kInvalidArgument, fmt::format("plan of rank {}: {}", plan.rank, *fault)};
  const auto failure = [&](size_t lane, size_t step, std::string_view reason) {
    return Status(Code::kInvalidArgument, fmt::format("rank {} lane {} step {}: {}", plan.rank, lane, step, reason));
  };
  int64_t named = 0;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const auto& steps = plan.lanes[lane].steps;
    if (steps.size() > kMaxSteps) return failure(lane, steps.size(), fmt::format("more than {} steps", kMaxSteps));
    for (size_t step = 0; step < steps.size(); ++step) {
      if (auto fault = StepCheck(plan, steps[step]).run()) return failure(lane, step, *fault);
      named += chunks_named(steps[step]);
      if (named > kMaxNamedChunks)
        return failure(lane, step, fmt::format("more than {} chunks named", kMaxNamedChunks));
      if (auto fault = check_waits_exist(plan, lane, steps[step])) return failure(lane, step, *fault);
    }
  }
  std::vector<size_t> done;
  if (auto lane = circular_wait(plan, done))
    return failure(*lane, done[*lane], "it waits, over other lanes, for itself");
  return {};
}

}  // namespace hocket
