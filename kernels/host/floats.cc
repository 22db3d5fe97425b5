// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The floating point kernels, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/floats.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include "kernels/host/combine-inl.h"
#include "kernels/host/table.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

template <DataType type>
constexpr std::array<CombineFunction, kReduceOps> row() {
  return {combine_all<type, ReduceOp::kSum>, combine_all<type, ReduceOp::kProd>, combine_all<type, ReduceOp::kMax>,
          combine_all<type, ReduceOp::kMin>};
}

}  // namespace

void add_floats(Table& table) {
  table.kernels[static_cast<size_t>(DataType::kFloat16)] = row<DataType::kFloat16>();
  table.kernels[static_cast<size_t>(DataType::kFloat32)] = row<DataType::kFloat32>();
  table.kernels[static_cast<size_t>(DataType::kFloat64)] = row<DataType::kFloat64>();
  table.kernels[static_cast<size_t>(DataType::kBfloat16)] = row<DataType::kBfloat16>();
  table.kernels[static_cast<size_t>(DataType::kFloat8e4m3)] = row<DataType::kFloat8e4m3>();
  table.kernels[static_cast<size_t>(DataType::kFloat8e5m2)] = row<DataType::kFloat8e5m2>();
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_floats);
void add_float_kernels(Table& table) { HWY_DYNAMIC_DISPATCH(add_floats)(table); }

}  // namespace hocket::host
#endif
