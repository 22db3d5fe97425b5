// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Reading ahead of loops over long arrays: hardware does so within a page only.
#pragma once

#include <algorithm>
#include <cstddef>

namespace hocket::host {

// Elements. The first level cache waits for too few lines at once to hide how far memory is, so they come to the second
// long before, and from there to the first when they are nearly needed.
inline constexpr size_t kFarAhead = 6144;
inline constexpr size_t kNearAhead = 512;

// A line that is needed later, for the second level cache.
inline void ask_for(const void* line) {
  constexpr int kForReading = 0, kSecondLevel = 2;
  __builtin_prefetch(line, kForReading, kSecondLevel);
}

// Asks for the lines that a loop at `at`, with `left` elements to go, will come to.
template <typename T>
inline void look_ahead(const T* at, size_t left) {
  constexpr int kForReading = 0, kFirstLevel = 3;
  if (left <= kFarAhead) return;
  ask_for(at + kFarAhead);
  __builtin_prefetch(at + kNearAhead, kForReading, kFirstLevel);
}

// Of all lines of the first `some` of `left` elements.
template <typename T>
inline void look_ahead_of(const T* from, size_t some, size_t left) {
  for (size_t i = 0; i < std::min(some, left); i += 64 / sizeof(T)) look_ahead(from + i, left - i);
}

}  // namespace hocket::host
