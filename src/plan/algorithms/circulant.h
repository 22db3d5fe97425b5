// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The all-gather half of the circulant schedule, for algorithms that end with it, or with something like it.
#pragma once

#include <vector>

#include "plan/builders.h"
#include "plan/write.h"

namespace hocket::plan::circulant {

// `ranks` halved, rounding up, down to 1.
std::vector<int32_t> distances(Rank ranks);
// `block` chunks of a slab from `position` on, in the order of the buffer: the last chunk of all, which may be shorter
// than the others, ends a message. So the others begin where blocks of a codec do.
Place in_buffer_order(const Slab& slab, int32_t position, int32_t block);
// Our own result is the chunk at `position` of the slab; it has been sent to the rank before us.
void gather_results(Lane& lane, const BuildOptions& options, const Slab& results, int32_t position);

}  // namespace hocket::plan::circulant
