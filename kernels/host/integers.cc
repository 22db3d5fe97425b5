// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The integer kernels, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/integers.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include "kernels/host/combine-inl.h"
#include "kernels/host/table.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

template <DataType type>
constexpr std::array<CombineFunction, kReduceOps> row() {
  return {combine_all<type, ReduceOp::kSum>,       combine_all<type, ReduceOp::kProd>,
          combine_all<type, ReduceOp::kMax>,       combine_all<type, ReduceOp::kMin>,
          combine_all<type, ReduceOp::kBitAnd>,    combine_all<type, ReduceOp::kBitOr>,
          combine_all<type, ReduceOp::kBitXor>,    combine_all<type, ReduceOp::kLogicalAnd>,
          combine_all<type, ReduceOp::kLogicalOr>, combine_all<type, ReduceOp::kLogicalXor>};
}

}  // namespace

void add_integers(Table& table) {
  table.kernels[static_cast<size_t>(DataType::kInt8)] = row<DataType::kInt8>();
  table.kernels[static_cast<size_t>(DataType::kUint8)] = row<DataType::kUint8>();
  table.kernels[static_cast<size_t>(DataType::kInt32)] = row<DataType::kInt32>();
  table.kernels[static_cast<size_t>(DataType::kUint32)] = row<DataType::kUint32>();
  table.kernels[static_cast<size_t>(DataType::kInt64)] = row<DataType::kInt64>();
  table.kernels[static_cast<size_t>(DataType::kUint64)] = row<DataType::kUint64>();
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_integers);
void add_integer_kernels(Table& table) { HWY_DYNAMIC_DISPATCH(add_integers)(table); }

}  // namespace hocket::host
#endif
