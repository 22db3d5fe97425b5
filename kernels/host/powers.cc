// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Powers of two and their codes: plain loops, of which compilers make vector code, compiled once for each instruction
// set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/powers.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/element.h"
#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/powers.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

// In masks instead of branches, which compilers make no vectors of.
HWY_INLINE uint32_t code_of(uint32_t magnitude, uint32_t random) {
  constexpr uint32_t kLargest = (127u + 62u) << 23, kSmallest = (127u - 63u) << 23;
  // The carry out of the mantissa comes as often as the mantissa is large.
  const uint32_t exponent = (magnitude + (random & 0x7fffffu)) >> 23;
  const float chance = element::float_of(magnitude) * 0x1p63f;
  const uint32_t tiny = static_cast<float>(static_cast<int32_t>(random >> 8)) * 0x1p-24f < chance;
  const uint32_t is_tiny = 0u - static_cast<uint32_t>(magnitude < kSmallest);
  const uint32_t is_huge = 0u - static_cast<uint32_t>(magnitude > kLargest);
  return (((exponent - kPowerOffset) & ~is_tiny) | (tiny & is_tiny) | is_huge) & kPowerNan;
}

constexpr size_t kTile = 256;

// Values of any alignment.
void round_tile(const float* HWY_RESTRICT values, size_t count, DrawKey key, uint32_t first,
                uint8_t* HWY_RESTRICT codes) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, reinterpret_cast<const std::byte*>(values) + i * sizeof bits, sizeof bits);
    const uint32_t code = code_of(bits & 0x7fffffffu, random_word(key, first + static_cast<uint32_t>(i)));
    codes[i] = static_cast<uint8_t>(bits >> 31 << 7 | code);
  }
}

HWY_INLINE float power_of(uint32_t code) {
  const uint32_t magnitude = code & 0x7fu;
  const uint32_t is_zero = 0u - static_cast<uint32_t>(magnitude == 0);
  const uint32_t is_nan = 0u - static_cast<uint32_t>(magnitude == kPowerNan);
  const uint32_t power = (magnitude + kPowerOffset) << 23 & ~is_zero;
  // A NaN has no sign.
  return element::float_of(((power | (code & 0x80u) << 24) & ~is_nan) | (0x7fc00000u & is_nan));
}

void read_tile(const uint8_t* HWY_RESTRICT codes, size_t count, bool add, float* HWY_RESTRICT values) {
  for (size_t i = 0; i < count; ++i) values[i] = add ? values[i] + power_of(codes[i]) : power_of(codes[i]);
}

void round_all(const float* values, size_t count, DrawKey key, std::byte* out) {
  for (size_t first = 0; first < count; first += kTile) {
    look_ahead_of(values + first, kTile, count - first);
    auto* const codes = reinterpret_cast<uint8_t*>(out + first);
    round_tile(values + first, std::min(kTile, count - first), key, static_cast<uint32_t>(first), codes);
  }
}

// By way of a copy: codes could be what misaligned values are made of.
void read_all(const std::byte* in, size_t count, bool add, float* values) {
  for (size_t first = 0; first < count; first += kTile) {
    alignas(64) float tile[kTile];
    const size_t some = std::min(kTile, count - first);
    look_ahead_of(values + first, kTile, count - first);
    if (add) memcpy(tile, values + first, some * sizeof(float));
    read_tile(reinterpret_cast<const uint8_t*>(in + first), some, add, tile);
    memcpy(values + first, tile, some * sizeof(float));
  }
}

}  // namespace

void add_powers_of_target(CodecTable& table) {
  table.round_to_powers = round_all;
  table.read_powers = read_all;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_powers_of_target);
void add_powers(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_powers_of_target)(table); }

}  // namespace hocket::host
#endif
