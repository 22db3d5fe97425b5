// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What all ranks of a call do, in a form that a hundred thousand ranks fit in: steps without places, which know only
// how many bytes they move, what that takes, and on which pipes their messages travel. Plans become programs one after
// the other, so that no two of them are in memory at once. Knows no time and no network.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/builders.h"
#include "plan/plan.h"
#include "topology/network_model.h"

namespace hocket::simulate {

// How a call binds a plan to bytes. `bytes` are those of the whole buffer (all_reduce, broadcast, reduce) or of one
// rank's block (all others), as callers count them.
struct CallShape {
  int64_t bytes = 0;
  int64_t window_bytes = INT64_MAX;  // of a chunk, in one pass
  int64_t slice_bytes = INT64_MAX;   // of a message
  int32_t pipe_depth = 8;            // slices
};

class Program {
 public:
  struct Step {
    uint32_t first_message = 0;  // in messages(): those received, then those sent
    uint32_t first_after = 0;    // in afters()
    int64_t full_chunks = 0;     // of which it moves the window,
    int32_t cut_chunks = 0;      // and those that are shorter
    uint16_t after_count = 0;
    uint8_t receives = 0;
    uint8_t sends = 0;
    uint8_t read_chunks = 0;  // places
    uint8_t written_chunks = 0;
    Picoseconds work = 0;  // besides what moving the bytes takes
  };
  struct Lane {
    int32_t rank = 0;
    int32_t number = 0;  // within its rank
    uint32_t first_step = 0;
    uint32_t steps = 0;
  };
  struct Pipe {
    uint32_t sender = 0;  // lanes
    uint32_t receiver = 0;
  };
  struct After {
    uint32_t lane = 0;
    uint32_t step = 0;  // within the lane
  };

  std::string name;  // "all_reduce ring"
  CallShape shape;
  int64_t full_bytes = 0;  // of a chunk
  int64_t cut_bytes = 0;   // of the shorter one
  int64_t passes = 1;

  int32_t ranks() const { return static_cast<int32_t>(first_lane_.size()) - 1; }
  // Of a rank: numbers of lanes.
  uint32_t lanes_begin(int32_t rank) const { return first_lane_[static_cast<size_t>(rank)]; }
  uint32_t lanes_end(int32_t rank) const { return first_lane_[static_cast<size_t>(rank) + 1]; }
  std::span<const Lane> lanes() const { return lanes_; }
  std::span<const Pipe> pipes() const { return pipes_; }
  const Step& step(const Lane& lane, uint32_t index) const { return steps_[lane.first_step + index]; }
  uint64_t steps() const { return steps_.size(); }
  std::span<const uint32_t> received(const Step& step) const {
    return {messages_.data() + step.first_message, step.receives};
  }
  std::span<const uint32_t> sent(const Step& step) const {
    return {messages_.data() + step.first_message + step.receives, step.sends};
  }
  std::span<const After> afters(const Step& step) const {
    return {afters_.data() + step.first_after, step.after_count};
  }
  // Bytes that a step moves in a pass.
  int64_t extent(const Step& step, int64_t pass) const;

 private:
  friend class ProgramMaker;
  std::vector<Step> steps_;
  std::vector<Lane> lanes_;
  std::vector<uint32_t> first_lane_;  // by rank
  std::vector<Pipe> pipes_;
  std::vector<uint32_t> messages_;  // pipes
  std::vector<After> afters_;
};

// Puts a program together, rank by rank. A message is known by its sender, its receiver and a channel; what one lane
// sends on a channel to a rank, one lane of that rank receives, in order.
class ProgramMaker {
 public:
  explicit ProgramMaker(int32_t ranks);

  void begin_rank();
  void begin_lane();
  // The step that the next calls describe; valid until the next one begins.
  Program::Step& begin_step();
  void receive(int32_t from, int32_t channel);  // all receives of a step before its sends
  void send(int32_t to, int32_t channel);
  void wait_for(uint32_t lane, uint32_t step);  // lanes count within the rank
  // Fails where a message has no partner.
  Result<Program> finish();

 private:
  struct End {
    int32_t from;
    int32_t to;
    int32_t channel;
    uint32_t lane;
    bool receiving;
  };
  // The end that the current lane already has to a peer.
  struct Known {
    uint32_t lane = UINT32_MAX;
    int32_t channel = 0;
    uint32_t end = 0;
  };

  uint32_t end_of(const End& end, Known& known);
  Status join(const End& sender, const End& receiver);

  Program program_;
  int32_t rank_ = -1;
  std::vector<End> ends_;
  std::vector<Known> sending_to_;  // by peer
  std::vector<Known> receiving_from_;
};

// The plan of one rank.
using PlanSource = std::function<Plan(Rank)>;

// Builds the plans of all ranks, one after the other. Fails where plans do not fit together.
Result<Program> make_program(Rank ranks, const PlanSource& plan, const CallShape& shape);
// Of a builder that fits the options.
Result<Program> make_program(const Builder& builder, const BuildOptions& options, const CallShape& shape);

}  // namespace hocket::simulate
