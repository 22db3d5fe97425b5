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

// What a rank's sender to a peer and its receiver from it have in common.
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
    told_.store(released(), std::memory_order_relaxed);
    return static_cast<uint32_t>(told());
  }
  // Of ours, as the peer has said along with its messages.
  uint64_t heard() const { return heard_.load(std::memory_order_acquire); }
  // The sender knows of so many, however it was told.
  void know(uint64_t released) { known_.store(released, std::memory_order_release); }

  // ---- The receiver's
  uint64_t released() const { return released_.load(std::memory_order_acquire); }
  void release(uint64_t messages) { released_.store(messages, std::memory_order_release); }
  uint64_t told() const { return told_.load(std::memory_order_relaxed); }
  // The low half of a count, which is no further from what the sender knows than messages may be under way. Messages
  // may overtake each other. One caller at a time.
  void hear(uint32_t released) {
    const uint64_t known = known_.load(std::memory_order_acquire);
    const auto more = static_cast<int32_t>(released - static_cast<uint32_t>(known));
    const uint64_t count = known + static_cast<uint64_t>(int64_t{more});
    if (more > 0 && count > heard()) heard_.store(count, std::memory_order_release);
  }

 private:
  std::atomic<uint64_t> released_ = 0;
  std::atomic<uint64_t> told_ = 0;
  std::atomic<uint64_t> heard_ = 0;
  std::atomic<uint64_t> known_ = 0;
};

}  // namespace hocket
