// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Device pipes: slices of calls on device memory whose messages carry the values, each done by one kernel that reads
// its sources and writes its destinations where they are, in device memory and in the memory of the pipes, whatever
// transport these are of. The engine posts the messages when the kernel has ended. What of a pipe no kernel reaches
// passes through pinned memory.
#pragma once

#include <memory>

#include "comm/request.h"
#include "cuda/stream.h"
#include "execute/coded.h"

namespace hocket {

// What does the slices of a checked request whose stream is `caller`, in a context that was entered. Null: kernels
// cannot do it, or nobody has asked for it, so that the call has to be staged. Registers memory of pipes that calls
// before it would have used.
Result<std::shared_ptr<SliceRunner>> pipe_runner(const cuda::Stream& caller, const Request& request, Rank rank,
                                                 Rank ranks);

}  // namespace hocket
