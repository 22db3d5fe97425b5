// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Communicators of which a program waits to be told that they are ready: created or finalized without blocking. Of all
// others NCCL does not tell that calls are under way, as Hocket does, and programs take that for an error.
#pragma once

#include "nccl/nccl.h"

namespace hocket::nccl {

// From here on the program asks for it.
void begin_to_settle(ncclComm_t comm);
// What such a program is told instead of this state.
ncclResult_t settled_state(ncclComm_t comm, ncclResult_t state);

}  // namespace hocket::nccl
