// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Reading ahead of loops over long arrays: hardware does so within a page only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

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
  constexpr int kForReading = 0, kFirstLevel = 3;
  constexpr size_t kLine = 64 / sizeof(T);
  if (left < kFarAhead + some) return;
  for (size_t i = 0; i < some; i += kLine) {
    ask_for(from + kFarAhead + i);
    __builtin_prefetch(from + kNearAhead + i, kForReading, kFirstLevel);
  }
}

// Asks for the first lines of the page that follows the one in which `bytes` at `from` begin, if they end it: enough
// for hardware to go on. It goes ahead by itself within a page, and lines asked for pages ahead confuse it.
inline void look_at_next_page(const std::byte* from, size_t bytes, size_t left) {
  constexpr size_t kPage = 4096, kLine = 64, kLines = 8;
  const size_t rest = kPage - reinterpret_cast<uintptr_t>(from) % kPage;
  if (bytes < rest || left < rest + kPage) return;
  for (size_t line = 0; line < kLines; ++line) ask_for(from + rest + line * kLine);
}

}  // namespace hocket::host
