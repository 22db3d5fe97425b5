// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sums of vectors of which each rank has some elements. Each rank sends to the owner of a chunk what it has there, in
// the shortest form (codec/sparse_message.h), and the owner sends the sum of its chunk to all in the same way: where
// the sums fill up, the messages become all elements, so that never more is sent than of vectors that are not sparse,
// and a head. Few bytes go to all at once, and everybody adds. Elements are added in the order of ranks: all end with
// the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "codec/programs/program.h"
#include "codec/select.h"

namespace hocket {

// Elements by rising places, and their bits in the type. float32, float16 or bfloat16.
struct SparseVector {
  DataType type = DataType::kFloat32;
  uint64_t count = 0;  // of all elements; at most kMaxSparseCount
  std::vector<uint64_t> places{};
  std::vector<uint32_t> bits{};
};

inline constexpr uint64_t kMaxSparseCount = uint64_t{1} << 31;
// Where the rank with most has less than this divided by their number, all send to all at once, if that is not more
// than of dense vectors.
inline constexpr uint64_t kFewSparseBytes = 16 << 10;

// Hears of the sum chunk after chunk: where it begins, and its elements.
using SparseSink = std::function<void(uint64_t first, Values chunk)>;

Status sum_sparse(Collectives& collectives, const SparseVector& mine, const SparseSink& sink);

// Every rank's vector, to all.
Status gather_sparse(Collectives& collectives, const SparseVector& mine, std::vector<SparseVector>& all);

// Appends the elements that are not zero.
void append_nonzeros(uint64_t first, ConstValues values, SparseVector& to);

}  // namespace hocket
