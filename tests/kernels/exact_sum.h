// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What an exact sum must be, by MPFR, and contributions that sums get wrong. Shares no code with kernels/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/kernels.h"

namespace hocket::reference {

using Bytes = std::vector<std::byte>;

// Element by element the sum of the contributions, over `divide` if it is not 0, rounded once to `type`.
std::vector<double> exact_sum(DataType type, const std::vector<Bytes>& contributions, int64_t divide = 0);

// The elements of a float type as numbers; every one is a double.
std::vector<double> numbers(DataType type, const Bytes& elements);

// Equal, the sign of zeros included, or both NaN.
bool same(double a, double b);

// `count` elements for each of `ranks`: any bits, cancellation down to the last bit, halves between two values,
// sums beyond the largest value on their way, subnormals, zeros of both signs, now and then infinities and NaN.
std::vector<Bytes> awkward(DataType type, int ranks, size_t count, uint64_t seed);

}  // namespace hocket::reference
