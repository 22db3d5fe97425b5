// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Four following elements, as each thread of a coding kernel takes them from memory and brings them back: with one
// access where tiles are whole and aligned.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/pack.h"
#include "kernels/element.h"

namespace hocket::device {

inline constexpr uint32_t kQuad = 4;

// As they lie in memory, and as floats.
template <DataType type>
struct Four : Pack<typename element::Of<type>::Storage, kQuad> {
  using Element = element::Of<type>;

  HOCKET_ELEMENT void decode(float (&floats)[kQuad]) const {
    HOCKET_UNROLLED
    for (uint32_t i = 0; i < kQuad; ++i) floats[i] = Element::decode(this->values[i]);
  }

  HOCKET_ELEMENT void encode(const float (&floats)[kQuad]) {
    if constexpr (type == DataType::kFloat32) {
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kQuad; ++i) this->values[i] = floats[i];
    } else {
      const uint32_t twos[] = {Element::encode_two(floats[0], floats[1]), Element::encode_two(floats[2], floats[3])};
      memcpy(this->values, twos, sizeof twos);
    }
  }
};

// Those of a tile.
template <DataType type>
class Quads {
  using Storage = typename element::Of<type>::Storage;

 public:
  // The tile, of at most so many elements, begins with the `first` of `count`.
  HOCKET_ELEMENT Quads(std::byte* values, uint64_t first, uint64_t count, uint32_t tile)
      : values_(reinterpret_cast<Storage*>(values) + first),
        left_(static_cast<uint32_t>(count - first < tile ? count - first : tile)),
        are_whole_(left_ == tile && reinterpret_cast<uintptr_t>(values_) % sizeof(Four<type>) == 0) {}

  // Elements of the tile.
  HOCKET_ELEMENT uint32_t count() const { return left_; }

  // Whether all of the tile is there, and one access takes four.
  HOCKET_ELEMENT bool are_whole() const { return are_whole_; }

  // Calls function(std::bool_constant<are_whole()>), which is asked once then, not for each quad.
  template <typename Function>
  HOCKET_ELEMENT void with_access(Function function) const {
    if (are_whole_) {
      function(std::true_type());
    } else {
      function(std::false_type());
    }
  }

  // From the index-th on; beyond the last element, that one again.
  template <bool whole>
  HOCKET_ELEMENT Four<type> load(uint32_t index) const {
    if constexpr (whole) {
      return *reinterpret_cast<const Four<type>*>(values_ + index);
    } else {
      Four<type> four;
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kQuad; ++i) four.values[i] = values_[index + i < left_ ? index + i : left_ - 1];
      return four;
    }
  }

  // None beyond the last.
  template <bool whole>
  HOCKET_ELEMENT void store(uint32_t index, const Four<type>& four) const {
    if constexpr (whole) {
      store_at_once(reinterpret_cast<Four<type>*>(values_ + index), four);
    } else {
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kQuad; ++i) {
        if (index + i < left_) values_[index + i] = four.values[i];
      }
    }
  }

 private:
  Storage* values_;
  uint32_t left_;
  bool are_whole_;
};

// What decoded values make of the elements that were there before: their sums, or themselves.
template <DataType type>
HOCKET_ELEMENT Four<type> result_of(const Four<type>& before, bool adds, const float (&floats)[kQuad]) {
  float results[kQuad];
  before.decode(results);
  HOCKET_UNROLLED
  for (uint32_t i = 0; i < kQuad; ++i) results[i] = adds ? results[i] + floats[i] : floats[i];
  Four<type> four;
  four.encode(results);
  return four;
}

}  // namespace hocket::device
