// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What it takes a producer to claim cache lines that its consumer has read. Where the system has put the two may change
// within a second, so it is measured now and then where messages are written anyway. Does not know what is done about
// it.
#pragma once

#include <array>
#include <cstddef>

#include "base/system.h"
#include "transports/pipe.h"

namespace hocket {

class Claims {
 public:
  static constexpr size_t kProbedBytes = 4 << 10;
  // Bytes of messages between two looks, so that looking takes a hundredth of the time at most.
  static constexpr size_t kInterval = 4 << 20;

  explicit Claims(Clock& clock) : clock_(clock) { taken_.fill(Duration::max()); }

  // A message of `bytes` is about to be written to `memory`, of whose first kProbedBytes the consumer has read all.
  void look(std::byte* memory, size_t bytes);
  // By the shortest of the last few looks: what else the machine does makes one last longer, and nothing shorter.
  Distance distance() const { return distance_; }
  // As many looks as count have said so.
  bool is_sure() const { return looks_ >= taken_.size(); }

 private:
  Clock& clock_;
  size_t unseen_ = kInterval;      // bytes since the last look
  std::array<Duration, 4> taken_;  // by the last ones
  size_t looks_ = 0;
  Distance distance_ = Distance::kNear;
};

}  // namespace hocket
