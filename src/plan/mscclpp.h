// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// MSCCL++'s JSON: an algorithm as thread blocks of every GPU that read and write each other's memory, in an order that
// signals, barriers and packets with flags keep. Here a rank touches no memory but its own: what one reads or writes at
// another becomes a message, and order on one rank becomes waits between lanes.
//
// Running the algorithm on sets of ranks tells what it does, and clocks of all thread blocks tell whether its order is
// kept: what another order could change is refused. What an imported plan does is still for the verifier to prove
// (prove/load.h).
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket {

// The plans of all ranks. Their depth is what they may need at most. The failure names GPU, thread block and operation.
Result<std::vector<Plan>> import_mscclpp(std::string_view json);

}  // namespace hocket
