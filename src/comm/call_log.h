// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The last calls of one rank, for peers that ask what we called, and for the flight recorder. Fixed memory.
#pragma once

#include <array>
#include <atomic>
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

  // A collective whose turn has come, numbered from 0. Gives the number under which it is kept what it is. `algorithm`
  // stays.
  uint32_t record(uint64_t number, uint32_t fingerprint, const CallFacts& facts, std::string_view algorithm);
  // The same for one of a kind that was recorded. False: it is not kept any more, and nothing was recorded.
  bool repeat(uint64_t number, uint32_t kind) {
    if (!lane_.collectives().keeps(kind)) [[unlikely]]
      return false;
    begin(number, kind);
    return true;
  }
  void end(uint64_t number) { lane_.end(number, clock_); }
  void record_transfer(CallKey key, uint32_t fingerprint, const CallFacts& facts, std::string_view algorithm);
  void end_transfer() { lane_.end_transfer(clock_); }
  void note_waited(Duration waited) { lane_.note_waited(waited); }
  // The newest call has waited for this peer since then; -1: it goes on. `alone`: nothing else is called until it ends.
  void note_wait(Rank peer, Time since, bool alone = false);
  // The collective that runs has found nothing to do just now.
  void note_rest(Time now) { rested_ns_.store(now.time_since_epoch().count(), std::memory_order_relaxed); }
  // Any thread. Key 0: the newest collective.
  CallReport report(CallKey key) const;
  Pace pace() const { return {lane_.begun(), clock_.now(), lane_.waited()}; }
  Whereabouts whereabouts(Time now) const;

 private:
  // What the lane keeps, in more detail: under the same numbers.
  struct Entry {
    uint32_t kind = 0;
    CallKey key = 0;  // of a transfer
    uint32_t fingerprint = 0;
    CallFacts facts;
    std::string_view algorithm;
  };
  using Entries = std::array<Entry, FlightRow::kKinds>;

  void begin(uint64_t number, uint32_t kind) {
    if (lane_.begin(number, kind)) [[unlikely]]
      sample(number, kind);
  }
  void sample(uint64_t number, uint32_t kind);
  static const Entry* entry(const FlightRow& row, const Entries& entries, uint64_t number);
  const Entry* find_collective(CallKey key, CallReport::State& state) const;
  const Entry* find_transfer(CallKey key) const;
  const Entry* newest(CallKey& key) const;
  bool rests() const;

  Clock& clock_;
  FlightLane own_lane_;  // where the recorder has no room
  FlightLane& lane_;
  mutable std::mutex mutex_;
  Entries collectives_;
  Entries transfers_;
  Rank awaited_ = -1;
  Time awaited_since_{};
  Rank stuck_on_ = -1;
  std::atomic<int64_t> rested_ns_ = INT64_MIN;
};

}  // namespace hocket
