// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Ranks on this host, a process each, that time one collective by one algorithm. Knows the C API only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket::tool {

struct TeamWork {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;
  std::string transports;  // as HOCKET_TRANSPORTS; empty: all
  int32_t ranks = 2;
  std::vector<int64_t> bytes;  // as callers count them: of the buffer, or of one rank's block
};

// All-reduce, broadcast, reduce, all-gather, reduce-scatter and all-to-all.
bool can_time(Collective collective);

// Microseconds of one call among many, the slowest rank's, for each size. The process has no threads yet: it forks.
Result<std::vector<double>> time_calls(const TeamWork& work);

inline constexpr size_t kMaxTeamSizes = 64;
inline constexpr int32_t kMaxTeamRanks = 256;

}  // namespace hocket::tool
