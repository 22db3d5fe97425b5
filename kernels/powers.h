// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Rounding to one of the two powers of two around each value, at random, right on average. Values may have any
// alignment.
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

// The powers, or these added to what is there.
void read_powers(const std::byte* in, size_t count, bool add, float* values);

}  // namespace hocket
