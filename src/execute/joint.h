// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A call of all ranks whose buffers are all at hand, as batches for device kernels: the steps of joint plans
// (plan/joint.h) without their signals, which whoever launches has to replace. Touches no buffer, and knows no driver.
#pragma once

#include <span>
#include <vector>

#include "execute/execution.h"
#include "kernels/cuda/batch.h"

namespace hocket {

// What the kernels calculate in: bytes where the call only copies.
DataType joint_type(const Call& call);

// Appends what `rank` does. `calls` are those of all ranks, by rank, with joint plans, layouts and arithmetic.
void add_joint_steps(std::span<const Call> calls, Rank rank, std::vector<device::Batch>& batches);

}  // namespace hocket
