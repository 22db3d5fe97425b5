// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sparse tensors as callers have them, and the collectives of them. Blocking.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "comm/program_calls.h"

namespace hocket {

struct SparseTensor {
  uint64_t rows = 0, columns = 0;
  uint64_t nonzeros = 0;        // of a result: the room
  uint64_t* offsets = nullptr;  // rows + 1 where each row begins; null: places count through all rows
  uint64_t* indices = nullptr;
  std::byte* values = nullptr;
};

// `name` is the argument's, for errors. Its shape and memory; and what lies there.
Status check_sparse(const char* name, const SparseTensor& tensor, DataType type);
Status check_elements(const char* name, const SparseTensor& tensor);

// Divided by the number of ranks where `average`. Where the room of a result is too small, its nonzeros say how many
// there are.
Status all_reduce_sparse(Collectives& collectives, DataType type, bool average, const SparseTensor& send,
                         SparseTensor& recv);
Status all_reduce_sparse(Collectives& collectives, DataType type, bool average, const SparseTensor& send,
                         std::byte* recv);
Status all_gather_sparse(Collectives& collectives, DataType type, const SparseTensor& send,
                         std::span<SparseTensor> recv);

}  // namespace hocket
