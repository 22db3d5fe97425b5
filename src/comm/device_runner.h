// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Slices of calls on device memory, done by kernels: they encode into pinned memory, from where messages leave, and
// decode out of it, so that values stay on the device but for sums in place.
#pragma once

#include <memory>

#include "comm/request.h"
#include "cuda/stream.h"
#include "execute/coded.h"

namespace hocket {

// What does the slices of a checked request whose stream is `caller`, in a context that was entered. Null: kernels
// cannot do it, so that the call has to be staged.
Result<std::shared_ptr<SliceRunner>> device_runner(const cuda::Stream& caller, const Request& request, Rank rank,
                                                   Rank ranks);

}  // namespace hocket
