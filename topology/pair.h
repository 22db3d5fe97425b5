// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Two cores, and what goes from one to the other right now. Virtual machines are moved about: the same two may be near
// at one time and far at another.
#pragma once

#include <optional>

namespace hocket::topology {

struct CorePair {
  int first = 0;  // the two cpus
  int second = 0;
  double one_way_ns = 0;  // of a cache line
  double gb_per_s = 0;    // of a block that the first has written and the second copies
};

// Two threads, pinned, pass a line to and fro, and then blocks, for a few milliseconds. Nothing when they cannot be
// pinned.
std::optional<CorePair> measure_pair(int first, int second);

// The calling thread runs on this cpu only; false: it cannot.
bool pin_thread(int cpu);

}  // namespace hocket::topology
