// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How the frames of the codec lossless are laid out (src/codec/lossless.cc says what they mean), for host and device
// alike.
#pragma once

#include "kernels/exponents.h"
#include "kernels/kernels.h"

namespace hocket {

inline constexpr uint32_t kShortExponents = 7;  // that need no escape

inline constexpr std::byte kRawFrame{0}, kCodedFrame{1};  // how they begin
inline constexpr size_t kExponentHead = 4;                // bytes of a coded frame before the tops

inline constexpr int kLowBits = 3;  // of a float16 that are not coded, in masks
constexpr size_t low_mask_bytes(size_t count) { return (count + 7) / 8; }
constexpr size_t low_bytes(DataType type, size_t count) {
  if (type == DataType::kFloat32) return 2 * count;
  return type == DataType::kFloat16 ? kLowBits * low_mask_bytes(count) : 0;
}

}  // namespace hocket
