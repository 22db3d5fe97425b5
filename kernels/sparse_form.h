// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How the messages of selected elements are laid out (codec/sparse_message.h says what they mean), for host and device
// alike.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"

namespace hocket {

inline constexpr size_t kSparseHead = 5;      // bytes
inline constexpr uint32_t kLongGap = 0xffff;  // the u16 that selects nothing

enum class SparseForm : uint8_t { kAll = 0, kBitmap = 1, kIndices = 2, kGaps = 3 };

// u16s that lead to a selected element from the one before; -1: from where the first one's gap begins.
HOCKET_ELEMENT uint64_t gaps_between(int64_t last, int64_t next) {
  return 1 + static_cast<uint64_t>(next - last) / kLongGap;
}

// Of a message behind its head.
struct SparseLayout {
  SparseForm form = SparseForm::kAll;
  uint64_t place_bytes = 0;  // of kAll, where the values lie in their places, all of it
  uint64_t value_bytes = 0;

  HOCKET_ELEMENT uint64_t bytes() const { return place_bytes + value_bytes; }
};

// Of `count` elements, so many selected, whose gaps are so many u16s.
HOCKET_ELEMENT SparseLayout shortest_layout(uint64_t count, uint64_t selected, uint64_t gaps, uint64_t element_bytes) {
  const uint64_t value_bytes = selected * element_bytes;
  const SparseLayout others[] = {{SparseForm::kBitmap, (count + 7) / 8, value_bytes},
                                 {SparseForm::kIndices, selected * 4, value_bytes},
                                 {SparseForm::kGaps, gaps * 2, value_bytes}};
  SparseLayout best = {SparseForm::kAll, count * element_bytes, 0};
  for (const SparseLayout& other : others) {
    if (other.bytes() < best.bytes()) best = other;
  }
  return best;
}

}  // namespace hocket
