// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Processes that time collective calls, as any program would make them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "hocket/hocket.h"
#include "plan/plan.h"

namespace hocket::tool {

struct TeamWork {
  Collective collective = Collective::kAllReduce;
  std::vector<std::string> algorithms;
  std::string transports;  // as HOCKET_TRANSPORTS
  int32_t ranks = 2;
  std::vector<int64_t> bytes;  // at most kMaxTeamSizes
  double seconds = 10;         // soon after this no further round begins; there is one round in any case
};

// Some calls of one algorithm, one right after the other.
struct Timing {
  size_t algorithm = 0;
  size_t size = 0;          // both by their index in the work
  double microseconds = 0;  // of a call, on the slowest rank
};

inline constexpr size_t kMaxTeamSizes = 32;
inline constexpr int32_t kMaxTeamRanks = 64;

// Collectives that can be timed: those whose arguments are a count, maybe an operation and a root.
bool can_time(Collective collective);

// Round after round over sizes and algorithms, so that all share what the machine does meanwhile. Fails when a rank
// fails; what it says is on stderr. Here, by processes of its own:
Result<std::vector<Timing>> time_calls(const TeamWork& work);
// By the ranks of a communicator, each of which calls this; rank 0 gets the timings.
Result<std::vector<Timing>> time_calls(const TeamWork& work, int32_t rank, hocketComm_t together);

}  // namespace hocket::tool
