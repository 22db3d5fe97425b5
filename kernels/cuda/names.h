// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The combine kernels: each type of element with the symbol of its kernel.
#pragma once

#define HOCKET_COMBINE_KERNELS(X)           \
  X(kInt8, hocket_combine_int8)             \
  X(kUint8, hocket_combine_uint8)           \
  X(kInt32, hocket_combine_int32)           \
  X(kUint32, hocket_combine_uint32)         \
  X(kInt64, hocket_combine_int64)           \
  X(kUint64, hocket_combine_uint64)         \
  X(kFloat16, hocket_combine_float16)       \
  X(kFloat32, hocket_combine_float32)       \
  X(kFloat64, hocket_combine_float64)       \
  X(kBfloat16, hocket_combine_bfloat16)     \
  X(kFloat8e4m3, hocket_combine_float8e4m3) \
  X(kFloat8e5m2, hocket_combine_float8e5m2)
