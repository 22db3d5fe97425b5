// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Rounding to one of the two powers of two around each value, at random, right on average.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/random.h"

namespace hocket {

// Of one byte: the sign in the highest bit, below it 0 for zero, 1 to 126 for 2^-63 to 2^62, or this for NaN, which
// infinities, NaN and magnitudes above 2^62 become.
inline constexpr uint32_t kPowerNan = 127;
inline constexpr uint32_t kPowerOffset = 63;  // from a float32's exponent to ours

void round_to_powers(const float* values, size_t count, DrawKey key, std::byte* out);

}  // namespace hocket
