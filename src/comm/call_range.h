// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#pragma once

#include "comm/request.h"
#include "observe/ranges.h"
#include "plan/builders.h"

namespace hocket {

// A call while it lasts, as tools show it.
class CallRange {
 public:
  explicit CallRange(const CallFacts& facts) : range_(name(facts.collective), facts.count) {}

 private:
  const TimeRange range_;
};

}  // namespace hocket
