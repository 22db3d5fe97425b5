// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The plans of all ranks as one net of lanes and pipes, and its run: lanes go on as far as messages, room in pipes and
// waits for other lanes let them. What happens does not depend on the order in which the run visits lanes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket::proving {

// Numbers lanes, steps and pipes of all ranks.
class Network {
 public:
  struct Lane {
    Rank rank = 0;
    int32_t number = 0;     // within its rank
    size_t first_step = 0;  // among all steps
    size_t steps = 0;
  };

  struct Pipe {
    size_t sender = 0;  // lanes
    size_t receiver = 0;
  };

  // The plans must outlive the network. Fails where a message has no lane to arrive in.
  static Result<Network> make(std::span<const Plan> plans);

  std::span<const Plan> plans() const { return plans_; }
  std::span<const Lane> lanes() const { return lanes_; }
  std::span<const Pipe> pipes() const { return pipes_; }
  size_t steps() const { return received_.size(); }
  size_t lane_of(Rank rank, int32_t number) const {
    return first_lane_[static_cast<size_t>(rank)] + static_cast<size_t>(number);
  }
  size_t lanes_of(Rank rank) const { return plans_[static_cast<size_t>(rank)].lanes.size(); }
  const Step& step(const Lane& lane, size_t step) const {
    return plans_[static_cast<size_t>(lane.rank)].lanes[static_cast<size_t>(lane.number)].steps[step];
  }
  // Pipes of a step's messages, in the order of its places.
  std::span<const uint32_t> received(const Lane& lane, size_t step) const {
    return slice(received_[lane.first_step + step]);
  }
  std::span<const uint32_t> sent(const Lane& lane, size_t step) const { return slice(sent_[lane.first_step + step]); }

  // "rank 1 lane 0 step 3"
  static std::string where(const Lane& lane, size_t step);

 private:
  struct Slice {
    size_t begin = 0;
    size_t size = 0;
  };

  std::span<const uint32_t> slice(const Slice& range) const { return {pipe_numbers_.data() + range.begin, range.size}; }

  std::span<const Plan> plans_;
  std::vector<Lane> lanes_;
  std::vector<size_t> first_lane_;
  std::vector<Pipe> pipes_;
  std::vector<Slice> received_;
  std::vector<Slice> sent_;
  std::vector<uint32_t> pipe_numbers_;

  friend class NetworkMaker;
};

// One run with pipes of `depth` messages, `passes` times through every lane.
class Run {
 public:
  static constexpr int64_t kUnbounded = INT64_MAX;

  Run(const Network& network, int64_t depth, int passes = 1);

  // Calls visit(lane number, step, pass) -> bool for steps as they happen; false ends the run. Returns whether all
  // lanes came to their end.
  template <typename Visit>
  bool go(Visit&& visit) {
    while (!ready_.empty()) {
      const size_t lane = ready_.back();
      ready_.pop_back();
      queued_[lane] = false;
      while (can_go(lane)) {
        const size_t position = done_[lane];
        const size_t steps = network_.lanes()[lane].steps;
        if (!visit(lane, position % steps, position / steps)) return false;
        complete(lane);
      }
    }
    return stuck_lane() == kNone;
  }

  // Messages that nobody received: a pipe that holds one, or kNone.
  static constexpr size_t kNone = SIZE_MAX;
  size_t leftover() const;
  // Most messages that a pipe held.
  int64_t backlog() const { return backlog_; }
  // Who waits for whom, beginning with the first lane that did not end.
  std::string waits() const;

 private:
  bool can_go(size_t lane) const;
  bool waits_are_over(size_t lane) const;
  void complete(size_t lane);
  void wake(size_t lane);
  size_t stuck_lane() const;
  std::string wait_of(size_t lane, size_t* blocker) const;

  const Network& network_;
  int64_t depth_;
  size_t passes_;
  std::vector<size_t> done_;   // steps, per lane
  std::vector<int64_t> held_;  // messages, per pipe
  std::vector<size_t> ready_;
  std::vector<bool> queued_;
  int64_t backlog_ = 0;
};

}  // namespace hocket::proving
