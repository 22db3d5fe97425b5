// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The random numbers of a tile's elements. Float32 is one message with one draw; of other types each kCodedTile
// elements have a draw of their own.
#pragma once

#include "kernels/cuda/coding_work.h"
#include "kernels/random.h"

namespace hocket::device {

template <DataType type>
class TileDraws {
  static constexpr bool kOneDraw = type == DataType::kFloat32;

 public:
  // The tile begins with element `first`.
  HOCKET_ELEMENT TileDraws(const CodingWork& work, uint64_t first)
      : key_((kOneDraw ? work.draw : mix(work.draw + first / kCodedTile * kCodedTile)) ^ work.form.seed),
        before_(static_cast<uint32_t>(kOneDraw ? first : first % kCodedTile)) {}

  // Of an element of the tile.
  HOCKET_ELEMENT uint32_t word(uint32_t index) const { return random_word(key_, before_ + index); }
  HOCKET_ELEMENT uint32_t half(uint32_t index) const { return random_half(key_, before_ + index); }

 private:
  DrawKey key_;
  uint32_t before_;
};

}  // namespace hocket::device
