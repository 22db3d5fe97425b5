// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The half of a ring that other algorithms take, too.
#pragma once

#include "plan/write.h"

namespace hocket::plan::ring {

// All but the first step of an all-gather, in which each rank sends its own result to the next one. Its pipes hold
// kDepth messages: all ranks take one and pass one on in the same step, so with one nobody could begin.
inline constexpr int32_t kDepth = 2;
void pass_results(Lane& lane, const BuildOptions& options, const Slab& results);

}  // namespace hocket::plan::ring
