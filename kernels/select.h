// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Finding the large elements of an array, without its floating point: magnitudes are compared as the bits without the
// sign, in which order NaN is above infinity and infinity above all else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hocket {

// Room that collect() needs beyond what it reports.
inline constexpr size_t kCollectSlack = 64;

// Writes the indices and the bits of the elements whose magnitude is at least `least`, in order, until `room` are
// found; returns how many (more than `room` only by those of the last few, at most kCollectSlack). float32, float16
// or bfloat16.
size_t collect(DataType type, const std::byte* values, size_t count, uint32_t least, uint32_t* indices, uint32_t* bits,
               size_t room);

// The k-th largest magnitude (from 1) of `count` elements, of which there are at least k, by their bits.
uint32_t kth_largest(DataType type, const uint32_t* bits, size_t count, size_t k);

// Leaves those of magnitude at least `least`, in order; returns how many.
size_t keep_at_least(DataType type, uint32_t least, uint32_t* indices, uint32_t* bits, size_t count);

// The bits of one element.
uint32_t bits_at(DataType type, const std::byte* values, size_t index);

// The bits without the sign.
inline uint32_t magnitude_mask(DataType type) { return type == DataType::kFloat32 ? 0x7fffffffu : 0x7fffu; }
inline uint32_t magnitude_of(DataType type, uint32_t bits) { return bits & magnitude_mask(type); }

}  // namespace hocket
