// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The kernels of a collective on windows of device memory, whose addresses are known when it is issued.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/device_windows.h"
#include "comm/held_kernels.h"
#include "comm/request.h"
#include "execute/execution.h"

namespace hocket {

class Communicator;

// Of a checked request whose windows were found to be for kernels (call_windows.h), in a context that was entered.
Result<std::shared_ptr<HeldKernels>> window_kernels(const cuda::Stream& stream, Engine& engine,
                                                    Communicator& communicator, const Request& request);

// Maps the peers' parts of a window that a call of all ranks uses: who cannot has failed the others, too.
Result<DeviceParts> map_for_call(const cuda::Driver& driver, Communicator& communicator, uint32_t window);

// What this rank does of a joint plan. `buffers`: where each rank has the two of the call, sends first; null: nobody
// but that rank uses it.
struct RankBuffers {
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
};
std::vector<HeldKernels::Launch> joint_launches(const Request& request, const Plan& plan,
                                                const std::function<RankBuffers(size_t rank)>& buffers);

}  // namespace hocket
