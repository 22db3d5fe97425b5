// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which elements a sparse message carries. All give rising indices. NaN counts as larger than infinity.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec.h"

namespace hocket::select {

// Exactly min(k, count) of the largest magnitudes; of equal ones those with the lowest indices.
std::vector<uint32_t> largest(ConstValues values, size_t k);

// About k of the largest, never more than 2 k: by a threshold that a sample suggests.
std::vector<uint32_t> about_largest(ConstValues values, size_t k);

// All whose magnitude is at least `least`, which is not negative.
std::vector<uint32_t> at_least(ConstValues values, float least);

// k different elements, each as likely as any other; the same for the same draw.
std::vector<uint32_t> random(size_t count, size_t k, uint64_t draw);

}  // namespace hocket::select
