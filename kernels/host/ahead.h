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
  constexpr int kForReading = 0, kFirstLevel = 3;
  constexpr size_t kLine = 64 / sizeof(T);
  if (left < kFarAhead + some) return;
  for (size_t i = 0; i < some; i += kLine) {
    ask_for(from + kFarAhead + i);
    __builtin_prefetch(from + kNearAhead + i, kForReading, kFirstLevel);
  }
}

// Asks for what loops come to later, line by line: a processor waits for not many lines at once, and what asks for more
// stands still.
class Asking {
 public:
  // For as many lines as there are in the `bytes` at `from`, where there are `left`.
  Asking(const std::byte* from, size_t bytes, size_t left) : far_(from), near_(from) {
    if (left < kFar + bytes) return;
    far_ += kFar;
    near_ += kNear;
    step_ = 64;
  }
  // For the second level cache.
  inline void ask() {
    ask_for(far_);
    far_ += step_;
  }
  // For the first, where it is nearly needed.
  inline void fetch() {
    constexpr int kForReading = 0, kFirstLevel = 3;
    __builtin_prefetch(near_, kForReading, kFirstLevel);
    near_ += step_;
  }

 private:
  static constexpr size_t kFar = kFarAhead * sizeof(float), kNear = kNearAhead * sizeof(float);
  const std::byte* far_;
  const std::byte* near_;
  size_t step_ = 0;
};

}  // namespace hocket::host
