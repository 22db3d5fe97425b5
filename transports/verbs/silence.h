// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Whether a queue pair has been silent for too long: it has sends under way, and none of them is done or has failed,
// though a device gives a send up after two seconds. Devices that lose a timer would be waited for without an end.
#pragma once

#include <utility>

#include "transports/verbs/queue_pair.h"

namespace hocket {

class Silence {
 public:
  static constexpr Duration kLongest = std::chrono::seconds(5);
  static constexpr const char* kReason = "nothing was acknowledged for 5 s";

  // To be asked once in a while, of the same queue pair. Time in which nobody asked does not count: nobody looked
  // either.
  bool is_too_long(const QueuePair& pair, Time now) {
    const bool was_away = now - std::exchange(asked_, now) > kAway;
    if (was_away || pair.idle() || pair.completed() != completed_) {
      completed_ = pair.completed();
      since_ = now;
    }
    return now - since_ > kLongest;
  }
  // Another queue pair comes.
  void end(Time now) {
    completed_ = 0;
    since_ = asked_ = now;
  }

 private:
  static constexpr Duration kAway = std::chrono::seconds(3);  // the rest is what a device takes to give up

  uint64_t completed_ = 0;
  Time since_{};
  Time asked_{};
};

}  // namespace hocket
