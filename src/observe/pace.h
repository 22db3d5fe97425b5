// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Finds the rank that keeps the others waiting. In calls of all ranks nobody goes on before the slowest comes: the
// others wait there, and it does not. Knows no message; who asks has collected the figures.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/system.h"

namespace hocket {

// How a rank gets on, counted from its beginning.
struct Pace {
  uint64_t calls = 0;
  Time time{};        // of its own clock
  Duration waited{};  // in calls, for others
};

class PaceWatch {
 public:
  // A judgement takes at least so many calls of each rank.
  static constexpr uint64_t kCalls = 10;
  // Who waits less than the others by this share of the time, and of what it waits itself, is late: where all wait for
  // the network most of the time, how long they wait differs by chance. Who is late in two judgements in a row is slow.
  static constexpr double kMuch = 0.05;
  static constexpr double kMuchOfWaiting = 0.1;

  void note(int32_t rank, const Pace& pace);

  struct Laggard {
    int32_t rank = -1;
    double share = 0;         // of the time that it waits
    double others_share = 0;  // that half of the others wait, or more
    uint64_t calls = 0;
    Duration time{};
  };
  // Of all ranks that were noted, over what came since the last judgement. None: nobody is late, or it is too early to
  // call that rank slow.
  std::optional<Laggard> judge();
  // It is the first time that this rank is called slow. It may be again when somebody else has been since.
  bool is_new(const Laggard& slow);

 private:
  struct Record {
    Pace judged;
    Pace newest;
  };
  static double share(const Record& record);

  std::map<int32_t, Record> records_;
  int32_t late_ = -1;  // by the last judgement
  int32_t named_ = -1;
};

}  // namespace hocket
