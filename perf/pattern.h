// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Data whose reduction is known exactly: endless sequences of elements, one per rank, and the sequence that their
// reduction must give. Sums and products stay so small that every partial result, in any order, is exact in the type.
// A sequence is a table of a prime length that is rotated by one at each repetition, so that a piece of data in a wrong
// place shows, whatever the distance; filling and comparing run at memcpy's and memcmp's speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "element.h"

namespace hocket::perf {

class Pattern {
 public:
  static constexpr size_t kPeriod = 4099;

  // What `rank` contributes to a reduction over `ranks`.
  static Pattern contribution(const ElementType& type, const ReduceOp& op, int rank, int ranks, uint64_t seed);
  // What the reduction of all contributions gives.
  static Pattern reduction(const ElementType& type, const ReduceOp& op, int ranks, uint64_t seed);
  // Any bits at all, NaNs included: for collectives that only move data.
  static Pattern random_bits(size_t element_bytes, uint64_t seed);
  // The same byte everywhere: what nobody may have written to.
  static Pattern untouched(size_t element_bytes);

  // Elements first, first + 1, ... of the sequence.
  void write(std::byte* into, size_t first, size_t count) const;
  // How many of the elements are not those of the sequence.
  size_t wrong(const std::byte* data, size_t first, size_t count) const;

 private:
  Pattern(size_t element_bytes, std::vector<std::byte> table);

  size_t element_bytes_;
  std::vector<std::byte> table_;  // twice, so that every rotation is contiguous
};

// The scalar by which `rank` multiplies its contribution to a mulsum.
int64_t mulsum_scalar(int rank);

}  // namespace hocket::perf
