// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Block quantisation: the elements of a block share a scale, and each becomes a code of a few bits. Knows no
// specification strings and no messages.
//
// The form in memory. Elements come in groups of 256, the last one padded to a multiple of 32 (to 256 when rotated). A
// group is the heads of its blocks, one after the other, then its codes in bit planes: of 4, 2 and 1 bits, lowest bits
// first (8-bit codes: bytes). In a plane of b bits over n codes, byte j holds the codes j, j + n*b/8, j + 2*n*b/8, ...
// lowest first. Heads and values are little-endian.
//
//   scaling          head                               an element of the block is
//   kMagnitude       bfloat16 scale                     (code - 2^(bits-1)) * scale, |code - 2^(bits-1)| <= levels
//   kSignedExtreme   bfloat16 scale, perhaps negative   (code - 2^(bits-1)) * scale
//   kNorm            as kMagnitude
//   kRange           bfloat16 low, bfloat16 scale       low + code * scale
//   kFloat8e4m3      one byte, exponent + 127           float8(code) * 2^exponent
//   kFloat8e5m2      the same
//
// A block in which something is infinite or NaN has a NaN for its scale (0xff for its exponent): all its elements are
// NaN afterwards. Scales are at least 2^-126, so what is far smaller becomes zero.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/floats.h"

namespace hocket {

inline constexpr size_t kQuantiseGroup = 256;

enum class Scaling : uint8_t {
  kMagnitude,      // largest magnitude / levels
  kSignedExtreme,  // -(the element of largest magnitude) / 2^(bits-1): that element is exact, all codes are used
  kNorm,           // euclidean norm / levels
  kRange,          // (largest - smallest) / (2^bits - 1), from the smallest up
  kFloat8e4m3,     // a power of two
  kFloat8e5m2,
};

struct Quantiser {
  Scaling scaling = Scaling::kMagnitude;
  int bits = 8;             // 2, 3, 4, 6 or 8
  int levels = 127;         // kMagnitude, kNorm: the largest code on each side of zero
  uint32_t block = 32;      // elements: 32, 64, 128 or 256
  bool stochastic = false;  // rounds up or down at random, right on average; else to nearest even
  bool rotated = false;     // each group is turned by a Hadamard matrix, after its signs were changed by `signs`
  std::array<uint32_t, kQuantiseGroup / 32> signs{};  // bit i % 32 of word i / 32: element i of a group changes sign
};

// Bytes that `count` elements become.
size_t quantised_bytes(const Quantiser& quantiser, size_t count);

// Equal `draw`s make equal random choices. `out` has room for quantised_bytes().
void quantise(const Quantiser& quantiser, uint64_t draw, const ConstFloats& values, std::byte* out);

// `in` has quantised_bytes(). Adds to the values, or replaces them.
void dequantise(const Quantiser& quantiser, const std::byte* in, const MutableFloats& values, bool add);

}  // namespace hocket
