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

// Behind the escapes there is room for so many bytes more, which kernels may touch.
inline constexpr size_t kEscapeSlack = 64;

// Where the parts of a frame lie. Any alignment.
template <typename Byte>
struct ExponentParts {
  Byte* rest;
  Byte* masks;
  Byte* escapes;
};

// What frames to come will need: a frame's work asks memory for it on its way.
using Upcoming = std::array<std::span<const std::byte>, 2>;

// The first of those seven following exponents that most have of a sample of the values: every (n/128)-th.
uint8_t choose_base(const std::byte* values, size_t count);

// Writes all parts, and returns how many escapes there are.
size_t split_exponents(const std::byte* values, size_t count, uint8_t base, const ExponentParts<std::byte>& parts,
                       const Upcoming& upcoming);

// The values again, or, where they are added to what is there, the sums that combine() makes of them. Returns how many
// escapes it took; more than kExponentFrame: there are some beyond `count`.
size_t join_exponents(const ExponentParts<const std::byte>& parts, size_t count, uint8_t base, bool add,
                      std::byte* values, const Upcoming& upcoming);

}  // namespace hocket
