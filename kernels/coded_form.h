// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a kernel has to know of a codec: plain data.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "kernels/quantise.h"

namespace hocket {

struct CodedForm {
  enum class Kind : uint8_t { kCast, kBlocks, kSign, kPowers, kSelect, kExponents } kind = Kind::kCast;
  DataType wire = DataType::kFloat16;  // kCast: what elements are rounded to
  Quantiser quantiser = {};            // kBlocks
  uint64_t seed = 0;                   // kBlocks, kPowers: changes draws
  uint32_t sign_block = 0;             // kSign: elements
  double share = 0;                    // kSelect: of the elements, the largest ones; 0: instead those from `least` on
  float least = 0;                     // kSelect
};

// Whether the length of messages follows from the values, not from their count alone.
inline bool varies_in_length(const CodedForm& form) { return form.kind >= CodedForm::Kind::kSelect; }

// Where values are not float32, this many are one message of their own, with a draw of their own, that follows the one
// before. A multiple of every codec's block.
inline constexpr uint32_t kCodedTile = 4096;

}  // namespace hocket
