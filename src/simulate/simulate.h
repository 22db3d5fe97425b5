// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The simulator: runs a program in virtual time. It does what the executor does (passes, slices, bounded pipes, one
// thread per rank that visits its lanes in turn), and each thing takes the time that the fabric says. A link carries
// one slice after the other in the order of their coming; pipes that share it take turns, which is fair sharing in
// grains of a slice. The same input gives the same outcome, to the picosecond.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulate/fabric.h"
#include "simulate/faults.h"
#include "simulate/program.h"

namespace hocket::simulate {

// Is told what happens. Times are from the beginning of the first call.
class Observer {
 public:
  virtual ~Observer() = default;
  // A rank's thread worked on a slice of a step.
  virtual void on_slice(const Program::Lane& lane, uint32_t step, Picoseconds begin, Picoseconds end,
                        int64_t bytes) = 0;
  // A link was occupied by a message.
  virtual void on_link(LinkId link, Picoseconds begin, Picoseconds end, int64_t bytes) = 0;
};

struct SimulateOptions {
  int32_t calls = 1;  // one after the other; a rank begins the next when it has ended the last
  Faults faults;
  Observer* observer = nullptr;
};

struct LinkUse {
  Picoseconds busy = 0;
  int64_t bytes = 0;
};

struct Outcome {
  bool finished = false;
  Picoseconds end = 0;                 // of the last rank, or of the last thing that happened
  std::vector<Picoseconds> call_ends;  // of the last rank, by call; those that ended
  std::vector<std::string> stuck;      // "rank 3 lane 0 step 2 waits for a message from rank 5", the first few
  std::vector<LinkUse> links;
  uint64_t slices = 0;
  uint64_t messages = 0;

  // Of one call among many: without what the first has to itself.
  Picoseconds per_call() const;
};

Outcome simulate(const Program& program, const Fabric& fabric, const SimulateOptions& options = {});

inline constexpr size_t kMaxStuck = 8;

}  // namespace hocket::simulate
