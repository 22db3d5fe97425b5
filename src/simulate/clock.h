// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Reckoning with virtual time that ends: what would come later comes then.
#pragma once

#include <algorithm>
#include <cstdint>

#include "topology/network_model.h"

namespace hocket::simulate {

inline constexpr Picoseconds kForever = INT64_MAX / 2;  // 53 days: two of them can still be added
inline constexpr int64_t kFemtosecondsPerPicosecond = 1000;

inline Picoseconds later(Picoseconds time, Picoseconds by) { return std::min(time + by, kForever); }

// `amount` times `factor` by `divisor`.
inline int64_t scaled(int64_t amount, int64_t factor, int64_t divisor) {
  __extension__ using Wide = __int128;
  return static_cast<int64_t>(std::min<Wide>(Wide{amount} * factor / divisor, kForever));
}

}  // namespace hocket::simulate
