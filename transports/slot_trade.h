// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Slots that change hands. A message may give its slot away: its receiver, who has the lines in its cache now, writes
// a message of its own to the sender there, and so the slot comes home. Where data goes both ways nobody has to claim
// lines that another core holds (docs/decisions/0081). Knows no messages.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "transports/pipe.h"
#include "transports/ring_layout.h"

namespace hocket {

// What a rank's sender to a peer and its receiver from it have in common. Each of the two words is written by one of
// them, who turns a slot's bit over when the slot goes or comes: of ours, bits that differ are away; of the peer's,
// here.
class SlotTrade final : public Ties {
 public:
  // Bits of the peer's slots lie above ours.
  static constexpr uint32_t kTheirs = 16;
  static_assert(Ring::kMostGiven <= kTheirs);

  // ---- The sender's
  void set_ours(const Ring& ring) { ours_ = ring; }
  std::byte* their_slot(uint32_t bit) const { return theirs_->slot(bit - kTheirs); }
  // Slots that have come since the last call, and been read: the sender may write there.
  uint32_t take() {
    const uint32_t come = come_.load(std::memory_order_acquire);
    return come ^ std::exchange(taken_, come);
  }
  // Before the message that says so.
  void let_go(uint32_t bit) {
    gone_.store(gone_.load(std::memory_order_relaxed) ^ 1u << bit, std::memory_order_release);
  }

  // Whether anything has come since the last call: messages go both ways.
  bool was_answered() {
    if (!answered_.load(std::memory_order_relaxed)) return false;
    answered_.store(false, std::memory_order_relaxed);
    return true;
  }

  // Whether the peer has sent anything that lies in lines of its own: else slots that go to it would stay there.
  bool hears() const { return hears_.load(std::memory_order_relaxed); }

  // ---- The receiver's
  void answer() { answered_.store(true, std::memory_order_relaxed); }
  void hear() {
    if (!hears()) hears_.store(true, std::memory_order_relaxed);
  }
  void set_theirs(const Ring& ring) {
    if (!theirs_) theirs_ = ring;
  }
  std::byte* our_slot(uint32_t bit) const { return ours_->slot(bit); }
  // Whether a slot can come at all: one of ours that is away, or one of the peer's that is not here.
  bool can_come(uint32_t bit) const {
    const uint32_t differ = gone_.load(std::memory_order_acquire) ^ come_.load(std::memory_order_relaxed);
    return (differ >> bit & 1) == (bit < kTheirs ? 1 : 0);
  }
  // What it brought has been read.
  void come(uint32_t bit) { come_.store(come_.load(std::memory_order_relaxed) ^ 1u << bit, std::memory_order_release); }

 private:
  std::optional<Ring> ours_;    // written before any slot goes
  std::optional<Ring> theirs_;  // ... comes
  std::atomic<uint32_t> gone_ = 0;
  uint32_t taken_ = 0;
  alignas(kCacheLine) std::atomic<uint32_t> come_ = 0;
  std::atomic<bool> hears_ = false;
  std::atomic<bool> answered_ = false;
};

}  // namespace hocket
