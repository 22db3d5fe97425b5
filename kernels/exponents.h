// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Lossless coding of bfloat16 by its exponents: most lie within seven following ones and take three bits, the others
// are escapes. Works on frames; knows no messages.
//
// The coded frame of n elements, with m = n rounded up to a multiple of 64: n bytes of signs and mantissas; three bit
// masks of m bits, mask p holding bit p of every code, element i in bit i; one byte for each escape, in order: its
// exponent. Codes 0 to 6 are exponent - base, 7 an escape; codes beyond n are 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hocket {

inline constexpr size_t kExponentFrame = 4096;  // elements, at most

// Bytes of masks of n elements.
constexpr size_t exponent_mask_bytes(size_t count) { return (count + 63) / 64 * 3 * 8; }

// What frames to come will need: a frame's work asks memory for it on its way.
using Upcoming = std::array<std::span<const std::byte>, 2>;

// Writes `count` bytes of signs and mantissas to `rest`, and the masks. Any alignment.
void split_exponents(const std::byte* values, size_t count, uint8_t base, std::byte* rest, std::byte* masks,
                     const Upcoming& upcoming);

// The values again, but for the escapes, whose exponents come out wrong.
void join_exponents(const std::byte* rest, const std::byte* masks, size_t count, uint8_t base, std::byte* values,
                    const Upcoming& upcoming);

}  // namespace hocket
