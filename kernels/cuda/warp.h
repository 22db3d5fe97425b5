// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the threads of a warp, its lanes, keep to themselves and show each other without memory. All of a block's
// threads call these functions together.
#pragma once

#include <cstring>

#include "kernels/cuda/pack.h"
#include "kernels/cuda/team.h"

namespace hocket::device {

inline constexpr uint32_t kLanes = 32;
inline constexpr uint32_t kWarps = kBlockThreads / kLanes;

// One of a kind for each thread, which it keeps from phase to phase: in registers of a device.
template <typename T>
class Own {
 public:
#ifdef __CUDA_ARCH__
  HOCKET_ELEMENT T& operator[](uint32_t) { return value_; }
  HOCKET_ELEMENT const T& operator[](uint32_t) const { return value_; }

 private:
  T value_;
#else
  T& operator[](uint32_t thread) { return values_[thread]; }
  const T& operator[](uint32_t thread) const { return values_[thread]; }

 private:
  T values_[kBlockThreads];
#endif
};

// Gives each thread what another lane of its warp has. word_of(lane, word): a device's way to get a word of it;
// source(lane): which lane that is.
template <typename T, typename WordOf, typename Source>
HOCKET_ELEMENT void exchange_words(const Team& team, const Own<T>& from, Own<T>& to, [[maybe_unused]] WordOf word_of,
                                   [[maybe_unused]] Source source) {
#ifdef __CUDA_ARCH__
  static_assert(sizeof(T) % sizeof(uint32_t) == 0);
  team.alone([&](uint32_t thread) {
    uint32_t words[sizeof(T) / sizeof(uint32_t)];
    memcpy(words, &from[thread], sizeof words);
    for (uint32_t& word : words) word = word_of(thread % kLanes, word);
    memcpy(&to[thread], words, sizeof words);
  });
#else
  team.alone([&](uint32_t thread) { to[thread] = from[thread / kLanes * kLanes + source(thread % kLanes)]; });
#endif
}

// ... what lane source(lane) has.
template <typename T, typename Source>
HOCKET_ELEMENT void exchange(const Team& team, const Own<T>& from, Own<T>& to, Source source) {
  const auto word_of = [&]([[maybe_unused]] uint32_t lane, uint32_t word) {
#ifdef __CUDA_ARCH__
    return __shfl_sync(~0u, word, static_cast<int>(source(lane)));
#else
    return word;
#endif
  };
  exchange_words(team, from, to, word_of, source);
}

// ... what the lane has whose number differs by `mask`.
template <typename T>
HOCKET_ELEMENT void exchange_across(const Team& team, const Own<T>& from, Own<T>& to, uint32_t mask) {
  const auto word_of = [&](uint32_t, uint32_t word) {
#ifdef __CUDA_ARCH__
    return __shfl_xor_sync(~0u, word, static_cast<int>(mask));
#else
    return word;
#endif
  };
  exchange_words(team, from, to, word_of, [&](uint32_t lane) { return lane ^ mask; });
}

// Replaces what each thread has by fold(that, what that lane has, lane).
template <typename T, typename Fold>
HOCKET_ELEMENT void fold_across(const Team& team, Own<T>& values, uint32_t mask, Fold fold) {
  Own<T> others;
  exchange_across(team, values, others, mask);
  team.alone([&](uint32_t thread) { values[thread] = fold(values[thread], others[thread], thread % kLanes); });
}

// Sums over a warp: of the lanes before each, and of all.
struct LaneSums {
  uint32_t before;
  uint32_t all;
};

HOCKET_ELEMENT void add_up_lanes(const Team& team, const Own<uint32_t>& numbers, Own<LaneSums>& sums) {
  Own<uint32_t> through = numbers, others;
  HOCKET_UNROLLED
  for (uint32_t distance = 1; distance < kLanes; distance *= 2) {
    exchange(team, through, others, [&](uint32_t lane) { return lane < distance ? lane : lane - distance; });
    team.alone([&](uint32_t thread) {
      if (thread % kLanes >= distance) through[thread] += others[thread];
    });
  }
  exchange(team, through, others, [](uint32_t) { return kLanes - 1; });
  team.alone([&](uint32_t thread) { sums[thread] = {through[thread] - numbers[thread], others[thread]}; });
}

}  // namespace hocket::device
