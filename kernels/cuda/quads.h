// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Four following elements, as each thread of a coding kernel takes them from memory and brings them back: as floats,
// whatever their type is, and with one access where they are aligned.
#pragma once

#include <cstdint>

#include "kernels/cuda/pack.h"
#include "kernels/element.h"

namespace hocket::device {

inline constexpr unsigned kQuad = 4;

template <DataType type>
class Quads {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;
  using Four = Pack<Storage, kQuad>;

 public:
  HOCKET_ELEMENT Quads(std::byte* values, uint64_t count)
      : values_(reinterpret_cast<Storage*>(values)), count_(count) {}

  // Beyond the last element, that one again.
  HOCKET_ELEMENT void load(uint64_t index, float (&floats)[kQuad]) const {
    const Four four = loaded(index);
    for (unsigned i = 0; i < kQuad; ++i) floats[i] = Element::decode(four.values[i]);
  }

  // Replaces the elements, or adds to them. None beyond the last.
  HOCKET_ELEMENT void store(uint64_t index, const float (&floats)[kQuad], bool adds) const {
    if (index >= count_) return;
    Four four;
    if (adds) four = loaded(index);
    for (unsigned i = 0; i < kQuad; ++i) {
      four.values[i] = Element::encode(adds ? Element::decode(four.values[i]) + floats[i] : floats[i]);
    }
    if (is_whole(index)) {
      *reinterpret_cast<Four*>(values_ + index) = four;
    } else {
      for (unsigned i = 0; i < kQuad && index + i < count_; ++i) values_[index + i] = four.values[i];
    }
  }

 private:
  HOCKET_ELEMENT bool is_whole(uint64_t index) const {
    return index + kQuad <= count_ && reinterpret_cast<uintptr_t>(values_ + index) % sizeof(Four) == 0;
  }

  HOCKET_ELEMENT Four loaded(uint64_t index) const {
    if (is_whole(index)) return *reinterpret_cast<const Four*>(values_ + index);
    Four four;
    for (unsigned i = 0; i < kQuad; ++i) four.values[i] = values_[index + i < count_ ? index + i : count_ - 1];
    return four;
  }

  Storage* values_;
  uint64_t count_;
};

}  // namespace hocket::device
