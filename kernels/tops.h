// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A float as a top of 16 bits, laid out as a bfloat16, and low bits that no exponent is among: the lower 16 of a
// float32; the 3 lowest of a float16, whose exponent of 5 bits fits where 8 are. Of bfloat16 the top is all.
//
// Low bits of a float32 are 16 bits for each element; of n float16, three bit masks of n / 8 bytes (rounded up),
// element i in bit i % 8 of byte i / 8, the lowest bits first.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/floats.h"

namespace hocket {

// Of float32 and float16. `tops` has room for whole 64 elements.
void split_tops(const ConstFloats& values, std::byte* tops, std::byte* lows);

// The values again. Asks memory for `upcoming` on its way.
void join_tops(const std::byte* tops, const std::byte* lows, const MutableFloats& values,
               std::span<const std::byte> upcoming);

}  // namespace hocket
