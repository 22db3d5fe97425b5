// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Lanes of a rank that touch the same chunk, at least one writing, must be ordered: by waits, or by messages that
// travel from one to the other over other ranks.
#pragma once

#include "base/status.h"
#include "prove/contract.h"
#include "prove/network.h"

namespace hocket::proving {

// Looks at one pass and at two that overlap.
Status check_races(const Network& network, const Contract& contract);

}  // namespace hocket::proving
