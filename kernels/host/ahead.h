// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Reading ahead of loops over long arrays: hardware does so within a page only.
#pragma once

#include <hwy/cache_control.h>

#include <cstddef>

namespace hocket::host {

inline constexpr size_t kAhead = 2048;  // elements

// Asks for the line that a loop at `at`, with `left` elements to go, will come to.
template <typename T>
inline void look_ahead(const T* at, size_t left) {
  if (left > kAhead) hwy::Prefetch(at + kAhead);
}

}  // namespace hocket::host
