// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The binomial tree as ranges: with p the distance from the root, the subtree of p are the positions p .. p + size.
#pragma once

#include <algorithm>
#include <vector>

#include "plan/builders.h"
#include "plan/write.h"

namespace hocket::plan {

struct Subtree {
  int32_t position = 0;
  int32_t size = 1;
};

inline int32_t subtree_size(int32_t position, Rank ranks) {
  const int32_t lowest_bit = position & -position;
  return position == 0 ? ranks : std::min(lowest_bit, ranks - position);
}

inline int32_t parent_position(int32_t position) { return position & (position - 1); }

// Largest first.
inline std::vector<Subtree> children_of(int32_t position, Rank ranks) {
  std::vector<Subtree> result;
  const int32_t size = subtree_size(position, ranks);
  int32_t bit = 1;
  while (bit < size) bit *= 2;
  for (bit /= 2; bit >= 1; bit /= 2) result.push_back({position + bit, subtree_size(position + bit, ranks)});
  return result;
}

}  // namespace hocket::plan
