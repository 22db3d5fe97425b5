// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Rounding to powers of two: a plain loop, of which compilers make vector code, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/powers.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <hwy/highway.h>

#include "kernels/element.h"
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

void round_all(const float* HWY_RESTRICT values, size_t count, DrawKey key, std::byte* HWY_RESTRICT out) {
  auto* to = reinterpret_cast<uint8_t*>(out);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = element::bits_of(values[i]);
    const uint32_t code = code_of(bits & 0x7fffffffu, random_word(key, static_cast<uint32_t>(i)));
    to[i] = static_cast<uint8_t>(bits >> 31 << 7 | code);
  }
}

}  // namespace

void add_powers_of_target(CodecTable& table) { table.round_to_powers = round_all; }

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_powers_of_target);
void add_powers(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_powers_of_target)(table); }

}  // namespace hocket::host
#endif
