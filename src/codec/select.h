// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which elements a sparse message carries. NaN counts as larger than infinity.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec.h"

namespace hocket::select {

// Elements in order of their indices, and their bits.
struct Selection {
  std::vector<uint32_t> indices;
  std::vector<uint32_t> bits;

  void reserve(size_t count) {
    indices.reserve(count);
    bits.reserve(count);
  }
};

// Takes all from `first` to before `end`, which lie behind those that were taken.
void append(Selection& selection, ConstValues values, size_t first, size_t end);

// Exactly min(k, count) of the largest magnitudes; of equal ones those with the lowest indices.
Selection largest(ConstValues values, size_t k);

// About k of the largest, hardly more than 2 k: by a threshold that a sample suggests.
Selection about_largest(ConstValues values, size_t k);

// All whose magnitude is at least `least`, which is not negative.
Selection at_least(ConstValues values, float least);

// All that are infinite or NaN.
Selection special(ConstValues values);

// k different elements, each as likely as any other; the same for the same draw.
Selection random(ConstValues values, size_t k, uint64_t draw);

// All of both.
Selection united(const Selection& a, const Selection& b);

}  // namespace hocket::select
