// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// MSCCL's XML: an algorithm as thread blocks of every GPU, each with at most one peer to send to and one to receive
// from. A thread block becomes part of a lane, so that both ends of a connection are in lanes of one number.
//
// The format tells neither where a contribution enters a reduction nor where a result is complete, and lets an
// algorithm in place write its input; running it on sets of ranks tells. What an imported plan does is still for the
// verifier to prove (prove/load.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket {

inline constexpr int32_t kMaxMscclGpus = 1024;

// The plans of all ranks, for calls whose count the chunks divide. Their depth is the format's own: kMscclDepth. The
// failure names the line, or GPU, thread block and step.
Result<std::vector<Plan>> import_msccl(std::string_view xml);

inline constexpr int32_t kMscclDepth = 8;  // messages that a connection of NCCL holds

// One channel for each lane. Fails on collectives that the format does not know and on plans that it cannot say.
Result<std::string> export_msccl(std::span<const Plan> plans);

}  // namespace hocket
