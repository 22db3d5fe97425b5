// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Signals: counters that peers raise and their owner waits for, in memory that the peers reach like a window. Each peer
// has a cache line of its own; the last line says whether somebody sleeps until one is raised, and whether the owner
// has given up a call on windows.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/system.h"

namespace hocket {

// Where the counters of a rank lie.
class SignalBoard {
 public:
  static constexpr int32_t kSignals = 8;  // of each peer
  static constexpr size_t kLine = kSignals * sizeof(uint64_t);
  static constexpr size_t bytes(int32_t ranks) { return (static_cast<size_t>(ranks) + 1) * kLine; }

  explicit SignalBoard(std::span<std::byte> memory) : memory_(memory) {}

  // True when somebody sleeps.
  bool raise(int32_t from, int32_t signal) const {
    word(static_cast<size_t>(from), signal).fetch_add(1);
    return sleepers().load() > 0;
  }
  uint64_t raised(int32_t from, int32_t signal) const { return word(static_cast<size_t>(from), signal).load(); }
  std::atomic_ref<uint64_t> sleepers() const { return word(memory_.size() / kLine - 1, 0); }
  std::atomic_ref<uint64_t> given_up() const { return word(memory_.size() / kLine - 1, 1); }

 private:
  std::atomic_ref<uint64_t> word(size_t line, int32_t index) const {
    auto* at = memory_.data() + line * kLine + static_cast<size_t>(index) * sizeof(uint64_t);
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at));
  }

  std::span<std::byte> memory_;
};

// A rank's own board. Any thread.
class Signals {
 public:
  // `segment`: what peers can map; null where there is no shared memory to be had.
  Signals(int32_t ranks, std::shared_ptr<Segment> segment)
      : segment_(std::move(segment)),
        plain_(segment_ == nullptr ? SignalBoard::bytes(ranks) / sizeof(uint64_t) : 0),
        memory_(segment_ != nullptr ? segment_->bytes() : std::as_writable_bytes(std::span(plain_))) {}

  std::span<std::byte> memory() const { return memory_; }
  const std::shared_ptr<Segment>& segment() const { return segment_; }
  SignalBoard board() const { return SignalBoard(memory_); }

  // Takes so many of a peer's signals, if they have come.
  bool take(int32_t from, int32_t signal, uint64_t count) {
    const std::lock_guard lock(mutex_);
    uint64_t& taken = taken_[{from, signal}];
    if (board().raised(from, signal) - taken < count) return false;
    taken += count;
    return true;
  }
  uint64_t left(int32_t from, int32_t signal) {
    const std::lock_guard lock(mutex_);
    return board().raised(from, signal) - taken_[{from, signal}];
  }

 private:
  std::shared_ptr<Segment> segment_;
  std::vector<uint64_t> plain_;
  std::span<std::byte> memory_;
  std::mutex mutex_;
  std::map<std::pair<int32_t, int32_t>, uint64_t> taken_;  // guarded by mutex_
};

}  // namespace hocket
