// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The all-gather half of the circulant schedule, for algorithms that end with it.
#pragma once

#include "plan/builders.h"
#include "plan/write.h"

namespace hocket::plan::circulant {

// Our own result is the chunk at `position` of the slab; it has been sent to the rank before us.
void gather_results(Lane& lane, const BuildOptions& options, const Slab& results, int32_t position);

}  // namespace hocket::plan::circulant
