// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Room that is told along with messages: how many of a peer's messages this rank has released goes with whatever it
// sends to that peer, so that where data goes both ways no socket is asked (docs/decisions/0143).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "transports/pipe.h"

namespace hocket {

// What a rank's sender to a peer and its receiver from it have in common. Messages are counted modulo 2^32.
class UcxTies final : public Ties {
 public:
  // Those of the pipe's context, or new ones where it has none.
  static std::shared_ptr<UcxTies> of(const PipeContext& context) {
    auto ties = std::static_pointer_cast<UcxTies>(context.ties);
    return ties != nullptr ? std::move(ties) : std::make_shared<UcxTies>();
  }

  // ---- The sender's
  // For the message that goes now.
  uint32_t tell() {
    const uint32_t released = released_.load(std::memory_order_acquire);
    told_.store(released, std::memory_order_relaxed);
    return released;
  }
  // How many more of ours the peer says that it has released than the sender knows.
  uint32_t heard_beyond(uint64_t known) const {
    return beyond(heard_.load(std::memory_order_acquire), static_cast<uint32_t>(known));
  }

  // ---- The receiver's
  void release(uint64_t messages) { released_.store(static_cast<uint32_t>(messages), std::memory_order_release); }
  // Of those released, how many no message has told of.
  uint32_t untold(uint64_t released) const {
    return beyond(static_cast<uint32_t>(released), told_.load(std::memory_order_relaxed));
  }
  // Messages may overtake each other. One caller at a time.
  void hear(uint32_t released) {
    if (beyond(released, heard_.load(std::memory_order_relaxed)) != 0) {
      heard_.store(released, std::memory_order_release);
    }
  }

 private:
  // 0 as well when `count` is behind.
  static uint32_t beyond(uint32_t count, uint32_t other) {
    const uint32_t more = count - other;
    return more < uint32_t{1} << 31 ? more : 0;
  }

  std::atomic<uint32_t> released_ = 0;
  std::atomic<uint32_t> told_ = 0;
  std::atomic<uint32_t> heard_ = 0;
};

}  // namespace hocket
