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
  std::vector<int> victims;  // one to three, fewer than ranks
  Seconds delay{};           // into the run
  // Each victim but the first comes so long after the one before, or after a survivor has said that that one is lost.
  // None: all at once.
  struct Pause {
    bool is_known = false;
    Seconds time{};
  };
  std::vector<Pause> pauses;
};
// One of these faults. At most `max_ranks`.
Trial make_trial(uint64_t seed, const std::vector<Fault>& faults, int max_ranks);
// Two or three victims, one after the other, of which two at least are survived by.
Trial make_succession(uint64_t seed, const std::vector<Fault>& faults, int max_ranks);
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
//   lost RANK                  for each of them
//   recovered SECONDS          the first call after a shrink was right
//   wrong ...                  a call returned success and a wrong result
//   done                       all is well
// Arguments of the roles: the seed, and how many ranks will be lost.

}  // namespace hocket::test
