// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sums of vectors of which each rank has some elements. Each rank sends to the owner of a chunk what it has there, in
// the shortest form (codec/sparse_message.h), and the owner sends the sum of its chunk to all in the same way: where
// the sums fill up, the messages become all elements, so that never more is sent than of vectors that are not sparse,
// and a head. Elements are added in the order of ranks: all end with the same bits. Few bytes go to all at once, and
// everybody adds; and those of short vectors are one sum whose messages carry what is not zero, by whatever plan is the
// fastest, recursive doubling for one.
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
  uint64_t count = 0;    // of all elements; at most kMaxSparseCount
  uint64_t columns = 0;  // in which they are seen as a matrix, if they are; equal on all ranks
  std::vector<uint64_t> places{};
  std::vector<uint32_t> bits{};
};

inline constexpr uint64_t kMaxSparseCount = uint64_t{1} << 31;
// Where the rank with most has less than this divided by their number, all send to all at once, if that is not more
// than half of what dense vectors are: enough for any plan that adds sums to sums.
inline constexpr uint64_t kFewSparseBytes = 16 << 10;
// Up to here, and of few bytes, a sum goes by a plan: to look for what is not zero takes less than a message.
inline constexpr uint64_t kShortSparseBytes = 128 << 10;

// Hears of the sum chunk after chunk: where it begins, and its elements.
using SparseSink = std::function<void(uint64_t first, Values chunk)>;

Status sum_sparse(Collectives& collectives, const SparseVector& mine, const SparseSink& sink);

// Every rank's vector, to all.
Status gather_sparse(Collectives& collectives, const SparseVector& mine, std::vector<SparseVector>& all);

// Appends the elements that are not zero.
void append_nonzeros(uint64_t first, ConstValues values, SparseVector& to);

}  // namespace hocket
