// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Who runs where there are more ranks than cores: a rank keeps its core while it has work, and those that wait for one
// get it in the order of their coming.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "simulate/fabric.h"

namespace hocket::simulate {

class Cores {
 public:
  Cores(const Fabric& fabric, int32_t ranks);

  // What it takes until the rank runs (0 if it runs already), or nothing: it waits.
  std::optional<Picoseconds> take(int32_t rank);
  // The rank has no work, or is dead. Returns the rank that waited for its core and may take it now, or -1.
  int32_t leave(int32_t rank);

 private:
  static constexpr int32_t kNone = -1;
  struct Core {
    int32_t rank = kNone;  // that runs
    int32_t last = kNone;  // that ran before
  };
  struct Host {
    bool crowded = false;
    std::vector<Core> cores;
    std::deque<int32_t> waiting;
  };

  Host& host_of(int32_t rank) { return hosts_[static_cast<size_t>(fabric_.host_of(rank))]; }

  const Fabric& fabric_;
  std::vector<Host> hosts_;
};

}  // namespace hocket::simulate
