// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Finding the large elements of an array, without its floating point: magnitudes are compared as the bits without the
// sign, in which order NaN is above infinity and infinity above all else.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/kernels.h"

namespace hocket {

// Room that collect() needs beyond what it reports.
inline constexpr size_t kCollectSlack = 64;

// Writes the indices and the bits of the elements whose magnitude is at least `least`, in order, until `room` are
// found; returns how many (more than `room` only by those of the last few, at most kCollectSlack). float32, float16
// or bfloat16.
size_t collect(DataType type, const std::byte* values, size_t count, uint32_t least, uint32_t* indices, uint32_t* bits,
               size_t room);

// The k-th largest magnitude (from 1) of `count` elements, of which there are at least k, by their bits; or one that at
// most `slack` more reach, which is found earlier.
uint32_t kth_largest(DataType type, const uint32_t* bits, size_t count, size_t k, size_t slack = 0);

// Leaves those of magnitude at least `least`, in order; returns how many.
size_t keep_at_least(DataType type, uint32_t least, uint32_t* indices, uint32_t* bits, size_t count);

// The bits of one element.
uint32_t bits_at(DataType type, const std::byte* values, size_t index);

// The bits without the sign.
HOCKET_ELEMENT constexpr uint32_t magnitude_mask(DataType type) {
  return type == DataType::kFloat32 ? 0x7fffffffu : 0x7fffu;
}
HOCKET_ELEMENT constexpr uint32_t magnitude_of(DataType type, uint32_t bits) { return bits & magnitude_mask(type); }

// The magnitude from which on nothing is finite.
HOCKET_ELEMENT constexpr uint32_t infinity_of(DataType type) {
  if (type == DataType::kFloat32) return 0x7f800000u;
  return type == DataType::kFloat16 ? 0x7c00u : 0x7f80u;
}

// So many of `count` elements, at least one if there is one, are a share of them.
HOCKET_ELEMENT uint64_t share_of(double ratio, uint64_t count) {
  const auto exact = static_cast<uint64_t>(ceil(ratio * static_cast<double>(count)));
  if (exact > count) return count;
  return exact == 0 && count > 0 ? 1 : exact;
}

}  // namespace hocket
