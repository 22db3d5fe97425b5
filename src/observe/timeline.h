// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The timed calls of many ranks as one timeline for chrome://tracing and Perfetto. Times are of the wall clock, so that
// files of several hosts fit together as far as the hosts' clocks do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "observe/flight.h"

namespace hocket {

class Timeline {
 public:
  static constexpr size_t kMostCalls = 1'000'000;

  // `wall_ns`: what the wall clock is ahead of the steady clock of the process' host.
  Timeline(std::string node, int64_t wall_ns) : node_(std::move(node)), wall_ns_(wall_ns) {}

  // May be called again and again for the same process: what is known already is left out.
  void add(const FlightCopy& process);
  size_t calls() const { return calls_; }
  // True: more was timed than was kept, or than was looked at in time.
  bool is_cut() const { return cut_; }
  std::string json() const;

 private:
  void add(const FlightCopy& process, const FlightCopy::Lane& lane);

  std::string node_;
  int64_t wall_ns_;
  std::map<std::pair<int32_t, size_t>, uint64_t> seen_;  // samples, by process and lane
  std::vector<std::string> events_;
  size_t calls_ = 0;
  bool cut_ = false;
};

// Of events in JSON.
std::string timeline_of(const std::vector<std::string>& events);

}  // namespace hocket
