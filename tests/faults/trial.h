// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One injected fault: what is done to which ranks of a running job, and what the survivors' words must then be. All of
// it follows from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/api/ranks.h"

namespace hocket::test {

enum class Fault : uint8_t { kKill, kStop, kPartition };
std::string name_of(Fault fault);

struct Trial {
  uint64_t seed = 0;
  Fault fault = Fault::kKill;
  int ranks = 2;
  std::string transport;     // "shm", "tcp"
  std::vector<int> victims;  // one or two, fewer than ranks
  Seconds delay{};           // into the run
};
// One of these faults. At most `max_ranks`.
Trial make_trial(uint64_t seed, const std::vector<Fault>& faults, int max_ranks);
std::string describe(const Trial& trial);

// The liveness timeout of all trials.
inline constexpr Seconds kTimeout{0.5};

// What the survivors wrote, judged.
struct Verdict {
  std::vector<std::string> complaints;
  std::vector<double> noticed;    // seconds from the fault to the error, one for each survivor
  std::vector<double> recovered;  // and to the first right collective without the lost
};
// `injected`: seconds of the steady clock, as in the ranks' words.
Verdict judge(const Trial& trial, double injected, const std::vector<Processes::End>& ends);

// A rank's words, one a line:
//   running SECONDS            it has made its first calls
//   failed SECONDS LOST TEXT   a call returned an error; LOST: the lost ranks, by their numbers at the start, or "none"
//   recovered SECONDS          the first call after a shrink was right
//   wrong ...                  a call returned success and a wrong result
//   done                       all is well
// Arguments of the role "survivor": the seed.

}  // namespace hocket::test
