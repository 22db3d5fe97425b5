// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Calls as named ranges of time in NVIDIA's tools (Nsight Systems), by NVTX: in the domain "hocket", with the number of
// elements. Known only where NVTX's headers were there when this was built; nothing is loaded, and a call costs one
// look at a constant, unless a tool has started the process.
#pragma once

#include <cstdint>
#include <string_view>

namespace hocket {

extern const bool kRangesWanted;
void begin_range(std::string_view name, uint64_t count);
void end_range();

// From its beginning to its end, on one thread.
class TimeRange {
 public:
  TimeRange(std::string_view name, uint64_t count) {
    if (kRangesWanted) [[unlikely]]
      begin_range(name, count);
  }
  ~TimeRange() {
    if (kRangesWanted) [[unlikely]]
      end_range();
  }
  TimeRange(const TimeRange&) = delete;
  TimeRange& operator=(const TimeRange&) = delete;
};

}  // namespace hocket
