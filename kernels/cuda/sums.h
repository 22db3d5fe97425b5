// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sums over the threads of a block: of all, and of those before each.
#pragma once

#include "kernels/cuda/team.h"

namespace hocket::device {

// Threads put their numbers in one phase; finish() is phases of its own; then all may read until the next finish().
class Sums {
  static constexpr uint32_t kRow = 16;
  static constexpr uint32_t kRows = kBlockThreads / kRow;

 public:
  HOCKET_ELEMENT void put(uint32_t thread, uint64_t number) { numbers_[thread / kRow][thread % kRow] = number; }

  HOCKET_ELEMENT void finish(const Team& team) {
    team.each([&](uint32_t thread) {
      if (thread >= kRows) return;
      uint64_t sum = 0;
      for (uint32_t i = 0; i < kRow; ++i) {
        const uint64_t number = numbers_[thread][i];
        numbers_[thread][i] = sum;
        sum += number;
      }
      rows_[thread] = sum;
    });
  }

  HOCKET_ELEMENT uint64_t before(uint32_t thread) const {
    return rows_before(thread / kRow) + numbers_[thread / kRow][thread % kRow];
  }
  HOCKET_ELEMENT uint64_t all() const { return rows_before(kRows); }

 private:
  HOCKET_ELEMENT uint64_t rows_before(uint32_t row) const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < row; ++i) sum += rows_[i];
    return sum;
  }

  uint64_t numbers_[kRows][kRow + 1];  // one more: rows begin in other banks
  uint64_t rows_[kRows];
};

}  // namespace hocket::device
