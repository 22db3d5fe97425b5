// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What reductions must give: an independent model over numbers so small that every result is exact in every type,
// whatever the order. Shares no code with the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hocket/hocket.h"

namespace hocket::test {

// Operations of the grid: the built-in ones by their values, then those that are created.
enum Operation : int {
  kPreMulSum = hocketNumOps,
  kUserCommutative,
  kUserOrdered,
  kOperations,
};

const char* type_name(hocketDataType_t type);
const char* operation_name(int operation);
size_t bytes_of(hocketDataType_t type);
bool is_float(hocketDataType_t type);
bool is_defined(hocketDataType_t type, int operation);

// Buffers repeat a table of this many elements: a prime, so that no shift by a block or slice goes unnoticed.
inline constexpr size_t kPeriod = 251;
using Table = std::vector<std::byte>;

// The contributions of all ranks under one type and operation, and their reductions.
struct Numbers {
  Numbers(hocketDataType_t type, int operation, int ranks, uint64_t seed);

  std::vector<Table> contributions;  // by rank
  std::vector<Table> scalars;        // by rank: one element; premultiplied sum only
  std::vector<Table> partial;        // the reduction of ranks 0 to r, without the division of avg
  Table total;
};

// The user's operations, on elements of any type taken as bits. The ordered one composes two maps x -> p x + h, which
// does not commute; the other is a + b + 3 a b.
void user_commutative(const void* in, void* inout, size_t count, hocketDataType_t datatype, void* context);
void user_ordered(const void* in, void* inout, size_t count, hocketDataType_t datatype, void* context);

}  // namespace hocket::test
