// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/sparse_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "codec/programs/sparse_sum.h"
#include "kernels/kernels.h"

namespace hocket {
namespace {

Status wrong(std::string why) { return {Code::kInvalidArgument, std::move(why)}; }

uint64_t count_of(const SparseTensor& tensor) { return tensor.rows * tensor.columns; }

// Rising from `first` to `end`, and below `limit`.
Status check_indices(const char* name, const uint64_t* indices, uint64_t first, uint64_t end, uint64_t limit) {
  for (uint64_t i = first; i < end; ++i) {
    if (indices[i] >= limit)
      return wrong(fmt::format("{}.indices[{}]: {} is not below {}", name, i, indices[i], limit));
    if (i > first && indices[i] <= indices[i - 1]) {
      return wrong(fmt::format("{}.indices[{}]: {} does not rise above {}", name, i, indices[i], indices[i - 1]));
    }
  }
  return {};
}

Status check_rows(const char* name, const SparseTensor& tensor) {
  if (tensor.offsets[0] != 0) return wrong(fmt::format("{}.offsets[0]: {} is not 0", name, tensor.offsets[0]));
  for (uint64_t row = 0; row < tensor.rows; ++row) {
    const uint64_t begin = tensor.offsets[row], end = tensor.offsets[row + 1];
    if (end < begin || end > tensor.nonzeros) {
      return wrong(fmt::format("{}.offsets[{}]: {} is not from {} to {}", name, row + 1, end, begin, tensor.nonzeros));
    }
    HOCKET_TRY(check_indices(name, tensor.indices, begin, end, tensor.columns));
  }
  const uint64_t last = tensor.offsets[tensor.rows];
  if (last == tensor.nonzeros) return {};
  return wrong(fmt::format("{}.offsets[{}]: {} is not nonzeros, {}", name, tensor.rows, last, tensor.nonzeros));
}

void put_value(DataType type, uint32_t bits, std::byte* to) { std::memcpy(to, &bits, element_bytes(type)); }

SparseVector vector_of(DataType type, const SparseTensor& tensor) {
  const size_t element = element_bytes(type);
  SparseVector vector{.type = type, .count = count_of(tensor), .columns = tensor.columns, .places = {}, .bits = {}};
  uint64_t row = 0;
  for (uint64_t i = 0; i < tensor.nonzeros; ++i) {
    while (tensor.offsets != nullptr && i >= tensor.offsets[row + 1]) ++row;
    vector.places.push_back(row * tensor.columns + tensor.indices[i]);
    uint32_t& bits = vector.bits.emplace_back(0);
    std::memcpy(&bits, tensor.values + i * element, element);
  }
  return vector;
}

Status write_tensor(const SparseVector& vector, SparseTensor& tensor) {
  const uint64_t room = std::exchange(tensor.nonzeros, vector.places.size());
  if (room < tensor.nonzeros) {
    return wrong(fmt::format("recv.nonzeros: there is room for {}, the result has {}", room, tensor.nonzeros));
  }
  const bool by_rows = tensor.offsets != nullptr;
  if (by_rows) std::fill_n(tensor.offsets, tensor.rows + 1, 0);
  for (uint64_t i = 0; i < tensor.nonzeros; ++i) {
    const uint64_t place = vector.places[i];
    tensor.indices[i] = by_rows ? place % tensor.columns : place;
    if (by_rows) ++tensor.offsets[place / tensor.columns + 1];
    put_value(vector.type, vector.bits[i], tensor.values + i * element_bytes(vector.type));
  }
  for (uint64_t row = 0; by_rows && row < tensor.rows; ++row) tensor.offsets[row + 1] += tensor.offsets[row];
  return {};
}

void divide(Values values, int ranks) {
  const std::byte* const source = values.data;
  combine({.type = values.type,
           .sources = {&source, 1},
           .destinations = {&values.data, 1},
           .count = values.count,
           .divide_last = ranks});
}

}  // namespace

Status check_sparse(const char* name, const SparseTensor& tensor, DataType type) {
  const bool known = type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
  if (!known) return wrong(fmt::format("datatype: sparse collectives do not take {}", hocket::name(type)));
  uint64_t count = 0;
  if (__builtin_mul_overflow(tensor.rows, tensor.columns, &count) || count > kMaxSparseCount) {
    return wrong(fmt::format("{}: {} rows of {} columns are more than {} elements", name, tensor.rows, tensor.columns,
                             kMaxSparseCount));
  }
  if (tensor.nonzeros > 0 && tensor.indices == nullptr) return wrong(fmt::format("{}.indices is NULL", name));
  if (tensor.nonzeros > 0 && tensor.values == nullptr) return wrong(fmt::format("{}.values is NULL", name));
  return {};
}

Status check_elements(const char* name, const SparseTensor& tensor) {
  if (tensor.offsets != nullptr) return check_rows(name, tensor);
  return check_indices(name, tensor.indices, 0, tensor.nonzeros, count_of(tensor));
}

Status all_reduce_sparse(Collectives& collectives, DataType type, bool average, const SparseTensor& send,
                         SparseTensor& recv) {
  SparseVector sum{.type = type, .count = count_of(send), .columns = send.columns, .places = {}, .bits = {}};
  HOCKET_TRY(sum_sparse(collectives, vector_of(type, send), [&](uint64_t first, Values chunk) {
    if (average) divide(chunk, collectives.ranks());
    append_nonzeros(first, {chunk.type, chunk.data, chunk.count}, sum);
  }));
  return write_tensor(sum, recv);
}

Status all_reduce_sparse(Collectives& collectives, DataType type, bool average, const SparseTensor& send,
                         std::byte* recv) {
  const size_t element = element_bytes(type);
  return sum_sparse(collectives, vector_of(type, send), [&](uint64_t first, Values chunk) {
    if (chunk.count == 0) return;
    if (average) divide(chunk, collectives.ranks());
    std::memcpy(recv + first * element, chunk.data, chunk.count * element);
  });
}

Status all_gather_sparse(Collectives& collectives, DataType type, const SparseTensor& send,
                         std::span<SparseTensor> recv) {
  std::vector<SparseVector> all;
  HOCKET_TRY(gather_sparse(collectives, vector_of(type, send), all));
  Status status;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const Status written = write_tensor(all[rank], recv[rank]);
    if (status.ok()) status = written;
  }
  return status;
}

}  // namespace hocket
