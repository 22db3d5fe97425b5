// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#pragma once

#include <string_view>

#include "comm/request.h"
#include "observe/ranges.h"
#include "plan/builders.h"

namespace hocket {

// A call while it lasts, as tools show it.
class CallRange {
 public:
  explicit CallRange(const CallArguments& call)
      : CallRange(kRangesWanted ? name(call.collective) : std::string_view(), call.count) {}
  CallRange(std::string_view name, uint64_t elements) : range_(name, elements) {}

 private:
  const TimeRange range_;
};

}  // namespace hocket
