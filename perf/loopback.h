// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One TCP connection of the loopback between a process and its fork, with nothing around it: for perf/limits.cc.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace hocket::perf {

class Loopback {
 public:
  // Ends the process, with the reason, where there is no such connection.
  Loopback();
  ~Loopback();
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  // After the fork: this process is rank 0 or 1, and sees the end of the other one.
  void be(int rank);

  // Sends all of `out` and receives all of `in`, both at once, and looks again and again for what is missing. False:
  // the other end is gone.
  bool exchange(std::span<const std::byte> out, std::span<std::byte> in) const;

 private:
  std::array<int, 2> ends_;  // by rank
  int own_ = -1;
};

}  // namespace hocket::perf
