// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The text form of plans, for people and files:
//
//   hocket plan 1
//   all_reduce ring
//   rank 0 of 2, root 0
//   chunks send 2, recv 2, scratch 0, message 1
//   depth 2
//   lane 0
//     to 1 <- first send[1]
//     recv[0], to 1 <- from 1 + first send[0] last
//
// send[1] at 3 is chunk 1 of the send buffer of rank 3 (a window). A step reads "destinations <- sources", then
// "after LANE.STEP ..." and "last" where they apply; "nothing" stands for an empty side. Regions: [3], [3..5] (a
// block), [3..5 x 4 by 8] (count and stride), [] (no chunk), joined by commas. Empty lines, and what follows a #, are
// ignored.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket {

inline constexpr size_t kMaxPlanText = size_t{16} << 20;  // bytes

std::string to_text(const Plan& plan);
std::string to_text(const Step& step);
std::string to_text(const Place& place);  // as a destination where it is a message

// Accepts exactly what check() accepts; the failure names the line and the reason.
Result<Plan> parse_plan(std::string_view text);

}  // namespace hocket
