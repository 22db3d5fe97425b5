// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One rank of a team that times calls: a communicator for each algorithm, and one by which the ranks agree.
#pragma once

#include <chrono>
#include <vector>

#include "hocket/hocket.h"
#include "team.h"

namespace hocket::tool {

inline constexpr size_t kMaxTimings = 1 << 16;

// Written by rank 0 alone.
struct Notes {
  size_t count = 0;
  Timing timings[kMaxTimings];
};

class Member {
 public:
  // `together` is all ranks' and stays the caller's.
  Member(const TeamWork& work, int32_t rank, hocketComm_t together, Notes& notes);
  // False, with a message on stderr, when a call failed.
  bool run();

 private:
  using Clock = std::chrono::steady_clock;

  // What all ranks know of an algorithm at a size.
  struct Cell {
    int64_t rounds = 0;
    int64_t calls = 0;        // in one go
    double microseconds = 0;  // the least seen
  };

  bool fork_communicators();
  bool run_round();
  bool run_size(size_t size);
  bool time_calls(size_t algorithm, size_t size);
  bool call(size_t algorithm, size_t count);
  bool agree_on_most(double& value);
  bool is_hopeless(const std::vector<Cell>& cells, size_t algorithm) const;
  bool complain(hocketComm_t comm) const;

  const TeamWork& work_;
  int32_t rank_;
  hocketComm_t together_;
  Notes& notes_;
  std::vector<hocketComm_t> comms_;       // by algorithm
  std::vector<std::vector<Cell>> cells_;  // by size and algorithm
  std::vector<double> spent_;             // seconds, by size
  std::vector<float> send_;
  std::vector<float> recv_;
};

}  // namespace hocket::tool
