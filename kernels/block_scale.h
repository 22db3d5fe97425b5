// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// From the extremes of a block to the head that describes it and the numbers that encode and decode its elements.
// Scalar: once per block, as devices do it. The host finds scales and writes heads in vectors (host/scales-inl.h),
// which have to come to the same; the rest it shares.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/element.h"
#include "kernels/quantise.h"

namespace hocket {

inline constexpr uint32_t kSmallestScale = 0x00800000u;  // 2^-126, so that the inverse is finite
inline constexpr uint32_t kLargestScale = 0x7f7f0000u;   // the largest bfloat16
inline constexpr uint32_t kInfinityBits = 0x7f800000u;

// What a block holds.
struct BlockExtremes {
  uint32_t magnitude = 0;  // the bits of the largest; infinity or more: something is not finite
  float lowest = 0;
  float highest = 0;
  float norm = 0;  // euclidean
};

// How elements become codes and codes elements: code = round(x * inverse + offset), x = low + code * scale.
struct BlockScale {
  float inverse = 0;
  float offset = 0;
  float scale = 0;
  float low = 0;
};

// The smallest and largest code, before `bias` makes it unsigned.
struct CodeRange {
  float lowest;
  float highest;
  int32_t bias;
};

HOCKET_ELEMENT CodeRange code_range(const Quantiser& quantiser) {
  const int32_t half = 1 << (quantiser.bits - 1);
  if (quantiser.scaling == Scaling::kRange) return {0, static_cast<float>(2 * half - 1), 0};
  if (quantiser.scaling == Scaling::kSignedExtreme) {
    return {static_cast<float>(-half), static_cast<float>(half - 1), half};
  }
  return {static_cast<float>(-quantiser.levels), static_cast<float>(quantiser.levels), half};
}

// Added to a small number, this leaves its nearest integer, ties to even, and the bias in the lowest bits.
HOCKET_ELEMENT float rounding_magic(int32_t bias) { return 12582912.0f + static_cast<float>(bias); }

// Added to a number between -bias and 256 - bias, this leaves it, with the bias, in units of 2^-15 in the lowest 23
// bits.
HOCKET_ELEMENT float fraction_magic(int32_t bias) { return 256.0f + static_cast<float>(bias); }

// 1 / the number of steps between the extremes that make a block's scale.
HOCKET_ELEMENT float step_share(const Quantiser& quantiser) {
  const auto codes = static_cast<float>(1 << quantiser.bits);
  switch (quantiser.scaling) {
    case Scaling::kSignedExtreme:
      return 2 / codes;
    case Scaling::kRange:
      return 1 / (codes - 1);
    default:
      return 1 / static_cast<float>(quantiser.levels);
  }
}

HOCKET_ELEMENT bool is_float8(Scaling scaling) { return scaling >= Scaling::kFloat8e4m3; }

HOCKET_ELEMENT size_t head_bytes(Scaling scaling) {
  if (is_float8(scaling)) return 1;
  return scaling == Scaling::kRange ? 4 : 2;
}

// Where the parts of a group of `count` elements lie.
struct GroupForm {
  size_t blocks;
  size_t padded;  // elements that have codes
  size_t heads;   // bytes
  size_t bytes;

  HOCKET_ELEMENT GroupForm(const Quantiser& quantiser, size_t count)
      : blocks((count + quantiser.block - 1) / quantiser.block),
        padded((count + 31) / 32 * 32),
        heads(blocks * head_bytes(quantiser.scaling)),
        bytes(heads + padded * static_cast<size_t>(quantiser.bits) / 8) {}
};

// Heads are little-endian, as numbers too.
HOCKET_ELEMENT uint32_t bfloat16_bits(float value) { return element::bits_of(value) >> 16; }
HOCKET_ELEMENT float bfloat16_of(uint32_t bits) { return element::float_of(bits << 16); }

// A positive scale as a bfloat16. To nearest, the largest code still stands for the largest magnitude, so that encoding
// again changes nothing; upward, no element lies beyond the largest code: rounding at random has no bias then, and the
// 255 steps of a range would not bear less.
HOCKET_ELEMENT float rounded_scale(float exact, bool upward) {
  const uint32_t bits = element::bits_of(exact);
  const uint32_t rounded = (bits + (upward ? 0xffffu : 0x7fffu + (bits >> 16 & 1u))) & 0xffff0000u;
  return element::float_of(std::clamp(rounded, uint32_t{kSmallestScale}, uint32_t{kLargestScale}));
}

// The largest bfloat16 that is not above a finite value.
HOCKET_ELEMENT float bfloat16_below(float value) {
  const uint32_t bits = element::bits_of(value);
  const uint32_t rounded = (bits + (bits >> 31 ? 0xffffu : 0u)) & 0xffff0000u;
  return element::float_of(std::min(rounded & 0x7fffffffu, uint32_t{kLargestScale}) | (rounded & 0x80000000u));
}

// The exponent that brings a block into the range of an 8-bit float whose largest value is 1.75 * 2^`top`.
HOCKET_ELEMENT int float8_exponent(uint32_t magnitude, int top) {
  const int exponent = static_cast<int>(magnitude >> 23) - 127 - top;
  return std::max(exponent + ((magnitude & 0x7fffffu) > 0x600000u ? 1 : 0), -126);
}

HOCKET_ELEMENT float power_of_two(int exponent) {
  return element::float_of(static_cast<uint32_t>(exponent + 127) << 23);
}

HOCKET_ELEMENT float exact_scale(Scaling scaling, const BlockExtremes& block, float share) {
  if (scaling == Scaling::kNorm) return block.norm * share;
  if (scaling != Scaling::kRange) return element::float_of(block.magnitude) * share;
  // Divided one by one: the difference of the extremes may be too large for a float.
  const float step = block.highest * share - bfloat16_below(block.lowest) * share;
  return std::max(step, std::fabs(block.lowest) * 0x1p-14f);
}

// A block's, and what describes it.
struct HeadedScale {
  BlockScale scale;
  uint32_t head = 0;  // head_bytes() of it
};

// Of a block whose elements are all finite.
HOCKET_ELEMENT HeadedScale headed_scale(const Quantiser& quantiser, const BlockExtremes& block, float share) {
  HeadedScale result;
  BlockScale& scale = result.scale;
  if (is_float8(quantiser.scaling)) {
    const int exponent = float8_exponent(block.magnitude, quantiser.scaling == Scaling::kFloat8e4m3 ? 8 : 15);
    result.head = static_cast<uint32_t>(exponent + 127);
    scale.inverse = power_of_two(-exponent);
    return result;
  }
  const bool upward = quantiser.stochastic || quantiser.scaling == Scaling::kRange;
  scale.scale = rounded_scale(exact_scale(quantiser.scaling, block, share), upward);
  if (quantiser.scaling == Scaling::kSignedExtreme && block.highest >= -block.lowest) scale.scale = -scale.scale;
  scale.inverse = 1.0f / scale.scale;
  result.head = bfloat16_bits(scale.scale);
  if (quantiser.scaling == Scaling::kRange) {
    // Of zeros the positive one, whichever came first: every instruction set writes the same.
    scale.low = bfloat16_below(block.lowest + 0.0f);
    scale.offset = -(scale.low * scale.inverse);
    result.head = result.head << 16 | bfloat16_bits(scale.low);
  }
  return result;
}

HOCKET_ELEMENT uint32_t poisoned_head(Scaling scaling) {
  constexpr uint32_t kNan = 0x7fc0u;
  if (is_float8(scaling)) return 0xff;
  return scaling == Scaling::kRange ? kNan << 16 : kNan;
}

HOCKET_ELEMENT BlockScale scale_of_head(Scaling scaling, uint32_t head) {
  BlockScale result;
  if (is_float8(scaling)) {
    result.scale = element::float_of(head == 0xff ? 0x7fc00000u : head << 23);
  } else if (scaling == Scaling::kRange) {
    result.low = bfloat16_of(head);
    result.scale = bfloat16_of(head >> 16);
  } else {
    result.scale = bfloat16_of(head);
  }
  return result;
}

// Of a head that lies anywhere.
HOCKET_ELEMENT BlockScale read_head(const Quantiser& quantiser, const uint8_t* head) {
  uint32_t bits = head[0];
  if (!is_float8(quantiser.scaling)) bits |= static_cast<uint32_t>(head[1]) << 8;
  if (quantiser.scaling == Scaling::kRange) bits |= uint32_t{head[2]} << 16 | uint32_t{head[3]} << 24;
  return scale_of_head(quantiser.scaling, bits);
}

}  // namespace hocket
