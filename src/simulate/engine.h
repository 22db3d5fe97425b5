// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One run of a program: the state of all lanes, pipes, ranks and links, and what each event does to it.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "simulate/clock.h"
#include "simulate/cores.h"
#include "simulate/events.h"
#include "simulate/simulate.h"

namespace hocket::simulate {

class Engine {
 public:
  Engine(const Program& program, const Fabric& fabric, const SimulateOptions& options);
  Outcome run();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct LaneState {
    int64_t pass = 0;
    int64_t extent = 0;  // bytes of the step in this pass
    int64_t done = 0;    // of these
    uint32_t step = 0;
    uint32_t checked = 0;          // messages of the slice, receives first, that are known to be there
    uint32_t next = kNone;         // in the rank's queue
    uint32_t next_waiter = kNone;  // of the lane that this one waits for
    uint32_t last_waiter = kNone;
    uint32_t first_waiter = kNone;  // that waits for this lane
    bool entered = false;
    bool queued = false;
  };
  struct PipeState {
    int32_t held = 0;         // slots in use, as the sender knows
    int32_t arrived = 0;      // and not yet taken
    Picoseconds free_at = 0;  // of the connection
    bool sender_waits = false;
    bool receiver_waits = false;
  };
  struct RankState {
    uint32_t first = kNone;  // queue of lanes that may be able to go on
    uint32_t last = kNone;
    uint32_t open_lanes = 0;  // that have not ended in this call
    int32_t calls = 0;        // that have ended
    bool in_call = false;
    bool working = false;
    bool dead = false;
  };
  // The messages that are last in a link's queue, by who sent them: more of them make little difference.
  struct Queue {
    static constexpr size_t kLength = 16;
    std::array<int32_t, kLength> senders{};
    std::array<Picoseconds, kLength> ends{};
    size_t next = 0;

    void add(int32_t sender, Picoseconds end);
    // Ranks that send at this time, with `sender`.
    int64_t senders_at(Picoseconds time, int32_t sender) const;
  };
  struct LinkState {
    Femtoseconds byte = 0;
    Picoseconds free_at = 0;
    Picoseconds lost_at = INT64_MAX;
    int64_t incast = 0;
    std::unique_ptr<Queue> queue;  // where there is incast
  };

  void apply(const Faults& faults);
  void handle(const Event& event);

  // engine.cc: ranks and lanes
  void begin_call(int32_t rank);
  void end_call(int32_t rank);
  void die(int32_t rank);
  void wake(uint32_t lane);
  void go_on(int32_t rank);
  bool ready(uint32_t lane);
  bool enter_step(uint32_t lane);
  bool messages_ready(uint32_t lane);
  void leave_step(uint32_t lane);
  bool ended(const LaneState& state) const { return state.pass == program_.passes; }
  Picoseconds start_slice(uint32_t lane, int64_t bytes) const;
  void finish_slice(int32_t rank, int64_t bytes);

  // engine_wires.cc: pipes and links
  // For which a message occupies a link that it comes to now.
  Picoseconds carry(LinkState& link, int32_t from, int64_t bytes);
  void depart(uint32_t pipe, int64_t bytes);
  void hop(uint32_t pipe, int hop, int64_t bytes, Picoseconds tail);
  void arrive(uint32_t pipe);
  void release(uint32_t pipe);
  void credit(uint32_t pipe);
  const MessageCost& cost(uint32_t pipe) const;
  int32_t sender(uint32_t pipe) const { return program_.lanes()[program_.pipes()[pipe].sender].rank; }
  int32_t receiver(uint32_t pipe) const { return program_.lanes()[program_.pipes()[pipe].receiver].rank; }
  std::vector<std::string> stuck() const;
  std::string wait_of(uint32_t lane) const;

  const Program& program_;
  const Fabric& fabric_;
  const SimulateOptions& options_;
  Cores cores_;
  Events events_;
  Picoseconds now_ = 0;
  std::vector<LaneState> lanes_;
  std::vector<PipeState> pipes_;
  std::vector<RankState> ranks_;
  std::vector<LinkState> links_;
  std::vector<int32_t> ended_calls_;  // ranks that have ended it, by call
  Outcome outcome_;
};

}  // namespace hocket::simulate
