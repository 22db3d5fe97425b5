// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Random numbers by counting: the i-th number of a draw is a function of the draw and i, so that any part of a message
// can be encoded anywhere and in any order, and gives the same bits. Written once for single numbers and vectors alike.
#pragma once

#include <cstdint>

#include "kernels/element.h"

namespace hocket {

// 64 well-mixed bits (the finisher of SplitMix64).
HOCKET_ELEMENT uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

// What a draw gives to each of its numbers.
struct DrawKey {
  uint32_t before;
  uint32_t between;
  HOCKET_ELEMENT explicit DrawKey(uint64_t draw)
      : before(static_cast<uint32_t>(mix(draw))), between(static_cast<uint32_t>(mix(draw) >> 32)) {}
};

inline constexpr uint32_t kFirstFactor = 0x21f0aaadu;
inline constexpr uint32_t kSecondFactor = 0xd35a2d97u;

HOCKET_ELEMENT uint32_t random_word(DrawKey key, uint32_t index) {
  uint32_t x = index + key.before;
  x = (x ^ x >> 16) * kFirstFactor;
  x = ((x ^ x >> 15) + key.between) * kSecondFactor;
  return x ^ x >> 15;
}

// In [0, 1), a multiple of 2^-24.
HOCKET_ELEMENT float random_fraction(DrawKey key, uint32_t index) {
  return static_cast<float>(random_word(key, index) >> 8) * 0x1p-24f;
}

// In [0, 2^15), two from each word: of 32 following indices the first 16 have the lowest bits of 16 words, the others
// their highest, so that vectors of any length take them without moving lanes.
inline constexpr int kRandomBits = 15;

HOCKET_ELEMENT uint32_t random_half(DrawKey key, uint32_t index) {
  const uint32_t word = random_word(key, index / 32 * 16 + index % 16);
  return index % 32 < 16 ? word & ((1u << kRandomBits) - 1) : word >> (32 - kRandomBits);
}

}  // namespace hocket
