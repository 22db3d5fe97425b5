// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/remote.h"

#include <algorithm>

namespace hocket {
namespace {

bool updates(RemoteRequest::Kind kind) {
  return kind == RemoteRequest::Kind::kFetch || kind == RemoteRequest::Kind::kCompareSwap;
}

template <typename T>
T combined(ReduceOp op, T before, T operand) {
  switch (op) {
    case ReduceOp::kMax:
      return std::max(before, operand);
    case ReduceOp::kMin:
      return std::min(before, operand);
    case ReduceOp::kBitAnd:
      return before & operand;
    case ReduceOp::kBitOr:
      return before | operand;
    case ReduceOp::kBitXor:
      return before ^ operand;
    default:
      return static_cast<T>(static_cast<uint64_t>(before) + static_cast<uint64_t>(operand));
  }
}

template <typename T>
uint64_t update_as(const RemoteRequest& request, std::byte* at) {
  const std::atomic_ref<T> value(*reinterpret_cast<T*>(at));
  const auto operand = static_cast<T>(request.operand);
  T before = value.load();
  if (request.kind == RemoteRequest::Kind::kCompareSwap) {
    before = static_cast<T>(request.compare);
    value.compare_exchange_strong(before, operand);
  } else {
    while (!value.compare_exchange_weak(before, combined(request.op, before, operand))) continue;
  }
  return static_cast<uint64_t>(before);
}

}  // namespace

bool is_atomic(DataType type) {
  return type == DataType::kInt32 || type == DataType::kUint32 || type == DataType::kInt64 || type == DataType::kUint64;
}

bool is_atomic(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kMax || op == ReduceOp::kMin || op == ReduceOp::kBitAnd ||
         op == ReduceOp::kBitOr || op == ReduceOp::kBitXor;
}

RemoteReply check_access(const RemoteRequest& request, std::span<const std::byte> part) {
  RemoteReply reply;
  const uint64_t extent = std::max(request.bytes, request.extent);
  if (request.offset > part.size() || extent > part.size() - request.offset) {
    reply.outcome = RemoteReply::Outcome::kOutside;
    reply.limit = part.size();
  } else if (updates(request.kind) &&
             reinterpret_cast<uintptr_t>(part.data() + request.offset) % element_bytes(request.type) != 0) {
    reply.outcome = RemoteReply::Outcome::kMisaligned;
  }
  return reply;
}

uint64_t update(const RemoteRequest& request, std::byte* at) {
  switch (request.type) {
    case DataType::kInt32:
      return update_as<int32_t>(request, at);
    case DataType::kUint32:
      return update_as<uint32_t>(request, at);
    case DataType::kInt64:
      return update_as<int64_t>(request, at);
    default:
      return update_as<uint64_t>(request, at);
  }
}

}  // namespace hocket
