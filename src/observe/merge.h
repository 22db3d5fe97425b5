// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Timelines of several hosts as one, on one clock: from a call of all ranks none returns before each has come to it, so
// the calls themselves tell what the hosts' clocks differ by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace hocket {

struct ClockOffset {
  double microseconds = 0;  // what was added to the times of this timeline
  double error = 0;         // at most, either way
};

struct MergedTimelines {
  std::string json;
  std::vector<std::optional<ClockOffset>>
      offsets;  // of each timeline; none: it has no call in common with those before
};
// The first timeline's clock counts. Fails when one is none of ours.
Result<MergedTimelines> merge_timelines(const std::vector<std::string>& timelines);

}  // namespace hocket
