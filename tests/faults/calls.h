// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Calls that all ranks draw alike. They say on standard output when success came with a wrong result.
#pragma once

#include <cstdint>
#include <random>

#include "tests/api/ranks.h"

namespace hocket::test {

using RandomCall = hocketResult_t(const Member& member, std::mt19937_64& random, uint32_t round);

RandomCall collective;
// A collective, some on a queue, or a group of transfers.
RandomCall any_call;
// The same, or collectives of a communicator that is made of this one for them and destroyed.
RandomCall any_call_or_child;

// The communicator of those who go on, if this rank came to a shrink when the one before had just failed: what the
// others make to recover. NULL: none. The caller's.
hocketComm_t take_shrunk();

}  // namespace hocket::test
