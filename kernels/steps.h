// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Floats as whole numbers of steps, in codes that are short where the numbers are small: a number q is 2q or, negative,
// -2q - 1. Works on blocks; knows no messages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hocket {

inline constexpr size_t kStepBlock = 256;  // elements

struct StepCodes {
  bool keeps = false;        // else nothing was written: something is off by more than half a step, or not finite
  bool differences = false;  // of each number from the one before, the first from 0
  int width = 0;             // bits of the longest code
};

// Writes the codes of a block's numbers or of their differences, whichever are shorter. The nearest number counts, to
// even; magnitudes are below 2^27.
StepCodes to_steps(const float* values, double step, uint32_t* codes);

// The values again. Any codes will do: numbers wrap.
void from_steps(const uint32_t* codes, bool differences, double step, float* values);

// Bit masks of the codes, mask 0 the lowest bits, element i in bit i % 8 of byte i / 8. Of each mask, the first
// mask_bytes of 32 bytes.
void write_masks(const uint32_t* codes, int width, size_t mask_bytes, std::byte* out);
// Codes of elements beyond the masks are 0.
void read_masks(const std::byte* in, int width, size_t mask_bytes, uint32_t* codes);

}  // namespace hocket
