// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which calls are too large for the caches, so that what they write goes past them (docs/decisions/0142).
#pragma once

#include "execute/execution.h"

namespace hocket {

// What this rank writes in its buffers would have left its part of the caches, Call::cache_bytes, before anybody reads
// it.
bool fills_caches(const Call& call);

}  // namespace hocket
