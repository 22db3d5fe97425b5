// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A plan over several lanes: every chunk is cut into as many parts as there are lanes, and each lane does with its part
// of all chunks what the plan does with the whole. A lane has a pipe of its own to every peer, which over TCP is a
// connection: several carry more where one of them does not fill the link.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace hocket {

// Of those collectives whose chunks are the ranks' blocks: the parts into which a plan cuts each block. Part i of block
// b is chunk b * parts + i. Else 1.
int32_t parts_of(const Plan& plan);

// Over how many it can go: 1 where there is nothing to cut, or regions are such that their parts are none. The same
// for all ranks' plans of an algorithm.
int32_t most_lanes(const Plan& plan);

// Chunk c becomes chunks c * lanes to c * lanes + lanes - 1. At most most_lanes().
Plan over_lanes(const Plan& plan, int32_t lanes);

}  // namespace hocket
