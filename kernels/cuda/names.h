// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The kernels: of combine, each type of element with its symbol, and so those of low latency and, of the types that a
// switch adds up, of multicast; of codecs, each kind and type, once to encode and once to decode.
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

#define HOCKET_LOW_LATENCY_KERNELS(X)           \
  X(kInt8, hocket_low_latency_int8)             \
  X(kUint8, hocket_low_latency_uint8)           \
  X(kInt32, hocket_low_latency_int32)           \
  X(kUint32, hocket_low_latency_uint32)         \
  X(kInt64, hocket_low_latency_int64)           \
  X(kUint64, hocket_low_latency_uint64)         \
  X(kFloat16, hocket_low_latency_float16)       \
  X(kFloat32, hocket_low_latency_float32)       \
  X(kFloat64, hocket_low_latency_float64)       \
  X(kBfloat16, hocket_low_latency_bfloat16)     \
  X(kFloat8e4m3, hocket_low_latency_float8e4m3) \
  X(kFloat8e5m2, hocket_low_latency_float8e5m2)

#define HOCKET_MULTICAST_KERNELS(X)     \
  X(kUint8, hocket_multicast_uint8)     \
  X(kInt32, hocket_multicast_int32)     \
  X(kUint32, hocket_multicast_uint32)   \
  X(kInt64, hocket_multicast_int64)     \
  X(kUint64, hocket_multicast_uint64)   \
  X(kFloat16, hocket_multicast_float16) \
  X(kFloat32, hocket_multicast_float32) \
  X(kFloat64, hocket_multicast_float64) \
  X(kBfloat16, hocket_multicast_bfloat16)

#define HOCKET_CODING_KERNELS(X)                                                            \
  X(kCast, kFloat32, hocket_encode_cast_float32, hocket_decode_cast_float32)                \
  X(kCast, kFloat16, hocket_encode_cast_float16, hocket_decode_cast_float16)                \
  X(kCast, kBfloat16, hocket_encode_cast_bfloat16, hocket_decode_cast_bfloat16)             \
  X(kBlocks, kFloat32, hocket_encode_blocks_float32, hocket_decode_blocks_float32)          \
  X(kBlocks, kFloat16, hocket_encode_blocks_float16, hocket_decode_blocks_float16)          \
  X(kBlocks, kBfloat16, hocket_encode_blocks_bfloat16, hocket_decode_blocks_bfloat16)       \
  X(kSign, kFloat32, hocket_encode_sign_float32, hocket_decode_sign_float32)                \
  X(kSign, kFloat16, hocket_encode_sign_float16, hocket_decode_sign_float16)                \
  X(kSign, kBfloat16, hocket_encode_sign_bfloat16, hocket_decode_sign_bfloat16)             \
  X(kPowers, kFloat32, hocket_encode_powers_float32, hocket_decode_powers_float32)          \
  X(kPowers, kFloat16, hocket_encode_powers_float16, hocket_decode_powers_float16)          \
  X(kPowers, kBfloat16, hocket_encode_powers_bfloat16, hocket_decode_powers_bfloat16)       \
  X(kSelect, kFloat32, hocket_encode_select_float32, hocket_decode_select_float32)          \
  X(kSelect, kFloat16, hocket_encode_select_float16, hocket_decode_select_float16)          \
  X(kSelect, kBfloat16, hocket_encode_select_bfloat16, hocket_decode_select_bfloat16)       \
  X(kExponents, kFloat32, hocket_encode_exponents_float32, hocket_decode_exponents_float32) \
  X(kExponents, kFloat16, hocket_encode_exponents_float16, hocket_decode_exponents_float16) \
  X(kExponents, kBfloat16, hocket_encode_exponents_bfloat16, hocket_decode_exponents_bfloat16)
