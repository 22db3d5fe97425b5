// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What combine must do, written a second time: slow, one element after the other, in arithmetic wide enough to be exact
// before each rounding. Shares no code with kernels/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace hocket::reference {

// A float format, described by its bits.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool infinity;
  bool saturates;
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
};
Format format_of(DataType type);  // 8- and 16-bit floats

double decode(const Format& format, uint32_t code);
uint32_t encode(const Format& format, double value);  // rounds once; NaN gives some NaN
bool is_nan(const Format& format, uint32_t code);

// The result of one combine, in order of the sources.
std::vector<std::byte> combine(const Combine& combine);

// Equal bits, or both NaN; of max and min also both zero.
bool same(DataType type, ReduceOp op, const std::byte* a, const std::byte* b);

}  // namespace hocket::reference
