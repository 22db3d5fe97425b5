// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What can be told of one rank's plan alone: numbers in range, the limits of plan.h, places of a step that fit
// together, waits that end. Whether the ranks' plans together do what they should is for the verifier.
#pragma once

#include "base/status.h"
#include "plan/plan.h"

namespace hocket {

inline constexpr int32_t kMaxRanks = 1 << 20;
inline constexpr int32_t kMaxChunks = 1 << 20;                // of one buffer
inline constexpr size_t kMaxSteps = size_t{1} << 20;          // of one lane
inline constexpr int64_t kMaxNamedChunks = int64_t{1} << 28;  // by all places of all steps
inline constexpr size_t kMaxAfter = kMaxLanes;                // waits of one step
inline constexpr int32_t kMaxDepth = 64;
inline constexpr size_t kMaxAlgorithmName = 64;  // characters

// The failure names rank, lane and step.
Status check(const Plan& plan);

}  // namespace hocket
