// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The element types and reduction operations that the perf tools can be asked for, under nccl-tests' names, and what
// exact checking must know of them. Knows the C API only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "hocket/hocket.h"

namespace hocket::perf {

enum class Kind { kSigned, kUnsigned, kFloat };

struct ElementType {
  std::string_view name;
  hocketDataType_t type;
  size_t bytes;
  Kind kind;
  int64_t exact_limit;  // every whole number up to this magnitude is exact, and so is every sum that stays below it
  int exponent_bits;    // floats of 16 and 8 bits only
  int mantissa_bits;
};

enum class Fold {
  kSum,
  kProd,
  kMax,
  kMin,
  kAvg,
  kMulSum,
  kBitAnd,
  kBitOr,
  kBitXor,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor
};

struct ReduceOp {
  std::string_view name;
  hocketRedOp_t op;  // meaningless for mulsum, which is created for each communicator
  Fold fold;
  bool integers_only;
};

std::span<const ElementType> element_types();
std::span<const ReduceOp> reduce_ops();

// Writes a whole number as one element. Floats: exact for magnitudes up to exact_limit; powers of two beyond it too.
void encode(const ElementType& type, int64_t value, std::byte* into);

}  // namespace hocket::perf
