// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The last calls of one rank, for peers that ask what we called, and for the flight recorder. Fixed memory.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/mesh.h"
#include "comm/request.h"
#include "observe/flight.h"
#include "observe/pace.h"

namespace hocket {

// Names a call among those of a communicator: collectives by number; transfers by direction, peer and number.
using CallKey = uint32_t;
CallKey collective_key(uint64_t number);
// The key under which `owner` keeps its side of a transfer with `peer`.
CallKey transfer_key(Rank peer, bool sending, uint64_t number);
bool is_transfer(CallKey key);
bool is_sending(CallKey transfer);
// From 1; of a transfer, modulo 2^16.
uint32_t number_of(CallKey key);

// "all_reduce(count 5, float32, sum) #3: does not match rank 0, which called barrier() instead". What looks the same
// differs in its plan.
std::string mismatch_text(const CallReport& ours, Rank peer, const CallReport& theirs);

class CallLog {
 public:
  // Null: no recorder has room.
  explicit CallLog(Clock& clock, FlightLane* lane = nullptr)
      : clock_(clock), lane_(lane == nullptr ? own_lane_ : *lane) {}

  // `algorithm` stays.
  void record(CallKey key, uint32_t fingerprint, const CallFacts& facts, std::string_view algorithm);
  void note_end() { lane_.end(clock_); }
  void note_waited(Duration waited) { lane_.note_waited(waited); }
  // The newest call has waited for this peer since then; -1: it goes on. `alone`: nothing else is called until it ends.
  void note_wait(Rank peer, Time since, bool alone = false);
  // Any thread. Key 0: the newest collective.
  CallReport report(CallKey key) const;
  Pace pace() const { return {lane_.begun(), clock_.now(), lane_.waited()}; }
  Whereabouts whereabouts(Time now) const;

 private:
  struct Entry {
    CallKey key = 0;
    uint32_t fingerprint = 0;
    CallFacts facts;
    std::string_view algorithm;
  };
  static constexpr size_t kEntries = 128;

  Clock& clock_;
  FlightLane own_lane_;  // where the recorder has no room
  FlightLane& lane_;
  mutable std::mutex mutex_;
  std::array<Entry, kEntries> entries_;
  uint64_t recorded_ = 0;
  CallKey last_collective_ = 0;
  Rank awaited_ = -1;
  Time awaited_since_{};
  Rank stuck_on_ = -1;
};

}  // namespace hocket
