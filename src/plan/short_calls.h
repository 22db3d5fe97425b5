// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What whoever performs short calls and whoever foretells their time both go by.
#pragma once

#include <cstdint>

namespace hocket {

// A call whose messages are no longer than this, in bytes, may take the fast path (docs/hot-path.md): messages in
// memory are cut beyond that.
inline constexpr int64_t kLongestBound = 128 << 10;

}  // namespace hocket
