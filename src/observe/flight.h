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
  uint64_t number = 0;  // from 1; a transfer's: among those with its peer
  uint64_t count = 0;
  int32_t peer = -1;  // or root
  int16_t kind = 0;
  int16_t type = 0;
};

// One call in so many, with its times on the host's steady clock.
struct FlightSample {
  FlightCall call;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::array<char, 24> algorithm = {};
};

// The last calls of one row. What calls are is kept apart, so that a call that is made again takes a store of four
// bytes. One writer at a time.
class FlightRow {
 public:
  static constexpr size_t kCalls = 64;
  static constexpr uint32_t kKinds = 2 * kCalls;

  // Keeps what calls are, under a number that is never 0.
  uint32_t keep(const FlightCall& call) {
    kinds_[++newest_kind_ % kKinds] = call;
    return newest_kind_;
  }
  // It will be there until each call that begins now is forgotten.
  bool keeps(uint32_t kind) const { return newest_kind_ - kind < kKinds - kCalls; }
  // Calls are numbered from 0.
  void begin(uint64_t number, uint32_t kind) {
    calls_[number % kCalls].store(kind, std::memory_order_release);
    begun_.store(number + 1, std::memory_order_release);
  }
  void end(uint64_t number) { ended_.store(number + 1, std::memory_order_relaxed); }
  // Of calls that end in any order, on any thread.
  void end_any() { ended_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t begun() const { return begun_.load(std::memory_order_acquire); }
  uint64_t ended() const { return ended_.load(std::memory_order_relaxed); }
  // Of one of the last calls; 0: it is forgotten, or was while we looked.
  uint32_t kind_of(uint64_t number) const {
    const uint32_t kind = calls_[number % kCalls].load(std::memory_order_acquire);
    return begun() - number < kCalls ? kind : 0;
  }
  const FlightCall& kept(uint32_t kind) const { return kinds_[kind % kKinds]; }
  void clear();

 private:
  std::atomic<uint64_t> begun_ = 0;
  std::atomic<uint64_t> ended_ = 0;
  uint32_t newest_kind_ = kKinds;  // far from 0, which is none
  std::array<std::atomic<uint32_t>, kCalls> calls_ = {};
  std::array<FlightCall, kKinds> kinds_ = {};
};

// What stands in memory for one communicator.
class FlightLane {
 public:
  static constexpr size_t kSamples = 64;
  static constexpr uint64_t kSampleEvery = 64;  // a power of two

  // Collectives have their turn one after the other, so who begins or ends one shares nothing with other writers.
  const FlightRow& collectives() const { return collectives_; }
  uint32_t keep(const FlightCall& collective) { return collectives_.keep(collective); }
  // True when it is to be timed, by sample().
  bool begin(uint64_t number, uint32_t kind) {
    collectives_.begin(number, kind);
    return (number & sample_mask_) == 0;
  }
  void end(uint64_t number, Clock& clock) {
    collectives_.end(number);
    end_sample_of_any(clock);
  }
  // Transfers run beside each other: whoever begins one holds a lock, whoever ends one need not.
  const FlightRow& transfers() const { return transfers_; }
  uint32_t keep_transfer(const FlightCall& transfer) { return transfers_.keep(transfer); }
  bool begin_transfer(uint32_t kind);
  void end_transfer(Clock& clock) {
    transfers_.end_any();
    end_sample_of_any(clock);
  }
  // Times the call that has just begun, if nothing else runs.
  void sample(const FlightCall& call, std::string_view algorithm, Time now);
  // So long a call waited for others.
  void note_waited(Duration waited) { waited_ns_.fetch_add(waited.count(), std::memory_order_relaxed); }
  Duration waited() const { return Duration(waited_ns_.load(std::memory_order_relaxed)); }
  // That the pipes hold now: whoever knows writes it there. Any thread.
  std::atomic<uint64_t>& pipe_bytes() { return pipe_bytes_; }
  uint64_t begun() const { return collectives_.begun() + transfers_.begun(); }
  uint64_t ended() const { return collectives_.ended() + transfers_.ended(); }
  // How many collectives began before one of the last transfers.
  uint64_t before(uint64_t transfer) const {
    return before_[transfer % FlightRow::kCalls].load(std::memory_order_relaxed);
  }
  // The newest call waits for this peer since then; -1: it goes on.
  void wait(int32_t peer, Time since) {
    // It stays as it was where the wait ends: a reader in between shall see no wait since ever.
    if (peer >= 0) since_ns_.store(since.time_since_epoch().count(), std::memory_order_relaxed);
    awaited_.store(peer, std::memory_order_release);
  }

 private:
  friend class FlightRecorder;
  friend class FlightReader;

  static constexpr uint64_t kTaken = UINT64_MAX;  // instead of a number: the sample is being kept

  void end_sample_of_any(Clock& clock) {
    if (const uint64_t sampled = sampled_.load(std::memory_order_relaxed); sampled != 0) [[unlikely]]
      end_sample(sampled, clock.now());
  }
  void end_sample(uint64_t sampled, Time now);

  std::atomic<uint32_t> in_use_ = 0;
  int32_t rank_ = 0;
  int32_t ranks_ = 0;
  int32_t hosts_ = 1;
  uint64_t communicator_ = 0;
  std::atomic<int32_t> awaited_ = -1;
  std::atomic<int64_t> since_ns_ = 0;
  std::atomic<int64_t> waited_ns_ = 0;
  std::atomic<uint64_t> pipe_budget_ = 0;
  std::atomic<uint64_t> pipe_bytes_ = 0;
  uint64_t sample_mask_ = kSampleEvery - 1;
  std::atomic<uint64_t> sampled_ = 0;  // calls begun with the one that is being timed; 0: none
  std::atomic<uint64_t> taken_ = 0;    // samples
  FlightSample sample_;                // of that call
  std::array<char, 40> name_ = {};
  FlightRow collectives_;
  FlightRow transfers_;
  std::array<std::atomic<uint64_t>, FlightRow::kCalls> before_ = {};
  std::array<FlightSample, kSamples> samples_ = {};
};

// The words for FlightCall's numbers, written once.
struct FlightNames {
  std::vector<std::string_view> kinds, types;
  std::vector<uint32_t> type_bytes;
};

// One rank of a communicator, as it is shown.
struct FlightMember {
  std::string_view name;  // may be empty
  int32_t rank = 0;
  int32_t ranks = 1;
  int32_t hosts = 1;
  uint64_t communicator = 0;  // the same for all its ranks
  uint64_t pipe_budget = 0;   // bytes that its pipes should hold at most; 0: nobody counts them
};

class FlightRecorder {
 public:
  static constexpr size_t kLanes = 64;
  static size_t bytes();

  // Of so many bytes, all zero. One call in `sample_every`, a power of two, is timed.
  FlightRecorder(std::unique_ptr<Segment> memory, int32_t process, const FlightNames& names,
                 uint64_t sample_every = FlightLane::kSampleEvery);

  // Null when all lanes are taken.
  FlightLane* open(const FlightMember& member);
  void close(FlightLane* lane);

 private:
  const std::unique_ptr<Segment> memory_;
  const uint64_t sample_every_;
  std::mutex mutex_;
};

// ---- What a reader makes of it

struct FlightCopy {
  struct Timed {
    std::string collective;
    std::string algorithm;
    uint64_t number = 0;
    uint64_t bytes = 0;  // count elements
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    double seconds() const { return 1e-9 * (static_cast<double>(end_ns) - static_cast<double>(begin_ns)); }
  };
  struct Lane {
    size_t place = 0;  // in memory; the same for the same communicator
    std::string name;
    int32_t rank = 0;
    int32_t ranks = 0;
    int32_t hosts = 1;
    uint64_t communicator = 0;
    int32_t awaited = -1;  // -1: it waits for nobody
    int64_t since_ns = 0;
    int64_t waited_ns = 0;
    uint64_t pipe_budget = 0;  // bytes; 0: nobody counts them
    uint64_t pipe_bytes = 0;   // held now
    uint64_t begun = 0;
    uint64_t ended = 0;
    uint64_t collectives = 0;  // begun
    std::string newest;        // call, without its number; empty: there was none
    uint64_t taken = 0;        // samples, of which the newest are here, oldest first
    std::vector<Timed> timed;
    std::vector<std::string> calls;  // newest first: "#12 all_reduce(1000 float32)"
  };
  int32_t process = 0;
  std::vector<Lane> lanes;
};

// Never trusts the bytes, which somebody else writes.
Result<FlightCopy> read_flight(std::span<const std::byte> memory, size_t max_calls);
// The same communicator some time ago; null: there was none, or another.
const FlightCopy::Lane* same_lane(const FlightCopy::Lane& lane, const FlightCopy& earlier);
// How long it has waited for its awaited rank.
Duration waiting(const FlightCopy::Lane& lane, Time time);
// One page for one process. `earlier`: the same some seconds ago, for rates.
std::string flight_report(const FlightCopy& now, const FlightCopy& earlier, Duration between, Time time);
// Of each communicator of which some rank has waited for a second: who waits for whom. Of ranks that are elsewhere it
// says no more than who waits for them.
std::string standstill_report(const std::vector<FlightCopy>& processes, Time time);

}  // namespace hocket
