// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Rounding to one of the two powers of two around each value, at random, right on average.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/floats.h"
#include "kernels/random.h"

namespace hocket {

// Of one byte: the sign in the highest bit, below it 0 for zero, 1 to 126 for 2^-63 to 2^62, or this for NaN, which
// infinities, NaN and magnitudes above 2^62 become.
inline constexpr uint32_t kPowerNan = 127;
inline constexpr uint32_t kPowerOffset = 63;  // from a float32's exponent to ours

// In masks instead of branches, which compilers make no vectors of. Of a magnitude, by its bits, and a random word:
HOCKET_ELEMENT uint32_t power_code(uint32_t magnitude, uint32_t random) {
  constexpr uint32_t kLargest = (127u + 62u) << 23, kSmallest = (127u - 63u) << 23;
  // The carry out of the mantissa comes as often as the mantissa is large.
  const uint32_t exponent = (magnitude + (random & 0x7fffffu)) >> 23;
  const float chance = element::float_of(magnitude) * 0x1p63f;
  const uint32_t tiny = static_cast<float>(static_cast<int32_t>(random >> 8)) * 0x1p-24f < chance;
  const uint32_t is_tiny = 0u - static_cast<uint32_t>(magnitude < kSmallest);
  const uint32_t is_huge = 0u - static_cast<uint32_t>(magnitude > kLargest);
  return (((exponent - kPowerOffset) & ~is_tiny) | (tiny & is_tiny) | is_huge) & kPowerNan;
}

HOCKET_ELEMENT uint8_t signed_power_code(float value, uint32_t random) {
  const uint32_t bits = element::bits_of(value);
  return static_cast<uint8_t>(bits >> 31 << 7 | power_code(bits & 0x7fffffffu, random));
}

HOCKET_ELEMENT float power_value(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu;
  const uint32_t is_zero = 0u - static_cast<uint32_t>(magnitude == 0);
  const uint32_t is_nan = 0u - static_cast<uint32_t>(magnitude == kPowerNan);
  const uint32_t power = (magnitude + kPowerOffset) << 23 & ~is_zero;
  // A NaN has no sign.
  return element::float_of(((power | static_cast<uint32_t>(code & 0x80) << 24) & ~is_nan) | (0x7fc00000u & is_nan));
}

void round_to_powers(const ConstFloats& values, DrawKey key, std::byte* out);

// The powers, or these added to what is there.
void read_powers(const std::byte* in, const MutableFloats& values, bool add);

}  // namespace hocket
