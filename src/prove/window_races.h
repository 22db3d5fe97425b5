// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What ranks do with each other's buffers must be ordered by messages: after the owner's call has begun and before it
// ends, and with everything that others, the owner too, do with the same chunk, where one of the two writes.
#pragma once

#include "base/status.h"
#include "prove/contract.h"
#include "prove/network.h"

namespace hocket::proving {

// Looks at one pass: passes touch different memory of the caller's, and every message of a pass is received in it.
Status check_window_races(const Network& network, const Contract& contract);

}  // namespace hocket::proving
