// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The flight recorder: the last calls of every communicator of a process, always on, in memory of fixed size that
// another process may read (`hocket status`) while this one runs, hangs or stands still. Writing is a few stores; who
// reads sees each number whole, but perhaps not all of one call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/system.h"

namespace hocket {

// Numbers as the names below have them; -1: does not apply.
struct FlightCall {
  uint64_t number = 0;  // of its kind, from 1
  uint64_t count = 0;
  int32_t peer = -1;  // or root
  int16_t kind = 0;
  int16_t type = 0;
};

// What stands in memory for one communicator.
class FlightLane {
 public:
  static constexpr size_t kCalls = 64;

  void begin(const FlightCall& call) { calls_[begun_.fetch_add(1, std::memory_order_relaxed) % kCalls] = call; }
  void end() { ended_.fetch_add(1, std::memory_order_relaxed); }
  // The newest call waits for this peer since then; -1: it goes on.
  void wait(int32_t peer, Time since) {
    since_ns_.store(since.time_since_epoch().count(), std::memory_order_relaxed);
    awaited_.store(peer, std::memory_order_relaxed);
  }

 private:
  friend class FlightRecorder;
  friend class FlightReader;

  std::atomic<uint32_t> in_use_ = 0;
  int32_t rank_ = 0;
  int32_t ranks_ = 0;
  std::atomic<int32_t> awaited_ = -1;
  std::atomic<int64_t> since_ns_ = 0;
  std::atomic<uint64_t> begun_ = 0;
  std::atomic<uint64_t> ended_ = 0;
  std::array<char, 40> name_ = {};
  std::array<FlightCall, kCalls> calls_ = {};
};

// The words for FlightCall's numbers, written once.
struct FlightNames {
  std::vector<std::string_view> kinds, types;
};

class FlightRecorder {
 public:
  static constexpr size_t kLanes = 64;
  static size_t bytes();

  // Of so many bytes, all zero.
  FlightRecorder(std::unique_ptr<Segment> memory, int32_t process, const FlightNames& names);

  // Null when all lanes are taken.
  FlightLane* open(std::string_view name, int32_t rank, int32_t ranks);
  void close(FlightLane* lane);

 private:
  const std::unique_ptr<Segment> memory_;
  std::mutex mutex_;
};

// ---- What a reader makes of it

struct FlightCopy {
  struct Lane {
    size_t place = 0;  // in memory; the same for the same communicator
    std::string name;
    int32_t rank = 0;
    int32_t ranks = 0;
    int32_t awaited = -1;
    int64_t since_ns = 0;
    uint64_t begun = 0;
    uint64_t ended = 0;
    std::vector<std::string> calls;  // newest first: "#12 all_reduce(1000 float32)"
  };
  int32_t process = 0;
  std::vector<Lane> lanes;
};

// Never trusts the bytes, which somebody else writes.
Result<FlightCopy> read_flight(std::span<const std::byte> memory, size_t max_calls);
// One page for one process. `earlier`: the same some seconds ago, for rates.
std::string flight_report(const FlightCopy& now, const FlightCopy& earlier, Duration between, Time time);

}  // namespace hocket
