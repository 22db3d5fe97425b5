// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Accumulators: fixed point numbers that reach from the smallest bit of a float type beyond the sum of 2^31 of its
// largest values. Adding them loses nothing, so every order gives the same bits, and rounding once at the end gives the
// correctly rounded sum. They are element types like others (copied, sent, summed by combine()), of which callers of
// the library know nothing.
//
// Special values. A NaN, or infinities of both signs, give NaN; else an infinity stays. A sum of zeros is -0 only if
// all are. Sums beyond the largest value become what element.h makes of such values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hocket {

// Of a float type.
DataType accumulator_of(DataType type);

// `count` floats of `type`, as accumulator_of(type). Any alignment.
void to_accumulators(DataType type, const std::byte* values, std::byte* accumulators, size_t count);

// Rounds to `type`, to nearest even; what is divided (0: is not) is rounded after it, once.
void from_accumulators(DataType type, const std::byte* accumulators, int64_t divide, std::byte* values, size_t count);

}  // namespace hocket
