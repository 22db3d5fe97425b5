// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Signs of floats, a bit each, and the mean of their magnitudes. Works on blocks.
#pragma once

#include <cstddef>

#include "kernels/floats.h"

namespace hocket {

inline constexpr size_t kMostSigns = 4096;  // in a block

// Of a block of n elements: a float32, the mean magnitude, or NaN where that is not finite; then m = n / 8 (rounded up)
// bytes, of which byte j has the signs of the elements j, j + m, j + 2m, ..., lowest bit first: 1 if below zero. The
// mean is that of sums in double of every 16th element from the first on, from the second, ..., added one after the
// other.
void write_signs(const ConstFloats& block, std::byte* out);

// The mean with these signs, or that added to what is there.
void read_signs(const std::byte* in, const MutableFloats& block, bool add);

}  // namespace hocket
