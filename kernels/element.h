// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the operations mean, one element at a time, for host and device alike: how each type is decoded to the type it
// is calculated in and encoded again, and what each operation does between two decoded elements. Knows no loops or
// memory.
//
// Rules. Integers wrap; division truncates toward zero. 8- and 16-bit floats are calculated in float32 and rounded
// once, to nearest even, subnormals included. NaN stays NaN, also through max and min. A float16, bfloat16 or e5m2
// infinity stays one. Finite results too large for float16 and bfloat16 become infinity; for the 8-bit floats they
// become the largest finite value, as in CUDA's conversions.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/kernels.h"

#ifdef __CUDACC__
#define HOCKET_ELEMENT __host__ __device__ inline
#else
#define HOCKET_ELEMENT inline
#endif

namespace hocket::element {

HOCKET_ELEMENT uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

HOCKET_ELEMENT float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// How a float narrower than float32 is laid out, and the float32 bit patterns that its conversions need.
template <typename StorageType, int kExponentBits, int kMantissaBits, bool kInfinity, bool kSaturates>
struct NarrowFormat {
  using Storage = StorageType;
  static constexpr int kBits = 8 * sizeof(Storage);
  static constexpr int kShift = 23 - kMantissaBits;  // from a float32's mantissa to ours
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr bool kHasInfinity = kInfinity;
  static constexpr uint32_t kMagnitude = (1u << (kBits - 1)) - 1;
  static constexpr uint32_t kSign = 1u << (kBits - 1);
  static constexpr uint32_t kInfinityCode = ((1u << kExponentBits) - 1)
                                            << kMantissaBits;  // without infinity: none such
  static constexpr uint32_t kLargestCode = kInfinity ? kInfinityCode - 1 : kMagnitude - 1;
  static constexpr uint32_t kNanCode = kBits == 8 ? kMagnitude : kInfinityCode | 1u << (kMantissaBits - 1);
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << 23;
  // From here on all float32 give the same code.
  static constexpr uint32_t kCeiling = ((kSaturates ? kLargestCode : kInfinityCode) << kShift) + kRebias;
  static constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
  // Adding this power of two to a smaller magnitude leaves the subnormal's code, rounded, in the lowest mantissa bits.
  static constexpr uint32_t kSubnormalMagic = static_cast<uint32_t>(127 + 1 - kBias + kShift) << 23;
};

using Float16Format = NarrowFormat<uint16_t, 5, 10, true, false>;
using Float8e4m3Format = NarrowFormat<uint8_t, 4, 3, false, true>;
using Float8e5m2Format = NarrowFormat<uint8_t, 5, 2, true, true>;

template <typename Format>
HOCKET_ELEMENT float decode_narrow(typename Format::Storage storage) {
  const uint32_t code = storage;
  const uint32_t magnitude = code & Format::kMagnitude;
  const uint32_t sign = (code & Format::kSign) << (32 - Format::kBits);
  if (magnitude >= Format::kInfinityCode && Format::kHasInfinity) {
    return float_of(sign | 0x7f800000u | (magnitude << Format::kShift));
  }
  if (magnitude == Format::kMagnitude) return float_of(sign | 0x7fc00000u);
  // The exponents differ by a constant factor, and multiplying by it normalises subnormals.
  const float scale = float_of(0x3f800000u + Format::kRebias);
  return float_of(sign | bits_of(float_of(magnitude << Format::kShift) * scale));
}

template <typename Format>
HOCKET_ELEMENT typename Format::Storage encode_narrow(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t clamped = magnitude < Format::kCeiling ? magnitude : Format::kCeiling;
  uint32_t code;
  if (magnitude > 0x7f800000u) {
    code = Format::kNanCode;
  } else if (magnitude == 0x7f800000u && Format::kHasInfinity) {
    code = Format::kInfinityCode;
  } else if (clamped < Format::kSmallestNormal) {
    code = bits_of(float_of(clamped) + float_of(Format::kSubnormalMagic)) - Format::kSubnormalMagic;
  } else {
    const uint32_t odd = clamped >> Format::kShift & 1u;
    code = (clamped - Format::kRebias + (1u << (Format::kShift - 1)) - 1 + odd) >> Format::kShift;
  }
  return static_cast<typename Format::Storage>(code | (bits >> 31 << (Format::kBits - 1)));
}

template <typename Format>
struct NarrowElement {
  using Storage = typename Format::Storage;
  using Wide = float;
  HOCKET_ELEMENT static Wide decode(Storage storage) { return decode_narrow<Format>(storage); }
  HOCKET_ELEMENT static Storage encode(Wide value) { return encode_narrow<Format>(value); }
  HOCKET_ELEMENT static Wide divide(Wide value, int64_t divisor) { return value / static_cast<float>(divisor); }
};

// Devices convert by instructions of their own, which give other NaN.
struct Float16Element : NarrowElement<Float16Format> {
#ifdef __CUDA_ARCH__
  HOCKET_ELEMENT static Wide decode(Storage storage) {
    Wide value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(storage));
    return value;
  }
  HOCKET_ELEMENT static Storage encode(Wide value) {
    Storage storage;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(storage) : "f"(value));
    return storage;
  }
#endif
  // The codes of two values, that of `low` in the lower bits.
  HOCKET_ELEMENT static uint32_t encode_two(Wide low, Wide high) {
#ifdef __CUDA_ARCH__
    uint32_t codes;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(codes) : "f"(high), "f"(low));
    return codes;
#else
    return encode(low) | uint32_t{encode(high)} << 16;
#endif
  }
};

// The upper half of a float32.
struct Bfloat16Element {
  using Storage = uint16_t;
  using Wide = float;
  HOCKET_ELEMENT static Wide decode(Storage storage) { return float_of(uint32_t{storage} << 16); }
#ifdef __CUDA_ARCH__
  HOCKET_ELEMENT static Storage encode(Wide value) {
    Storage storage;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(storage) : "f"(value));
    return storage;
  }
#else
  HOCKET_ELEMENT static Storage encode(Wide value) {
    const uint32_t bits = bits_of(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<Storage>(bits >> 16 | 0x40u);
    return static_cast<Storage>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
#endif
  // As Float16Element's.
  HOCKET_ELEMENT static uint32_t encode_two(Wide low, Wide high) {
#ifdef __CUDA_ARCH__
    uint32_t codes;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(codes) : "f"(high), "f"(low));
    return codes;
#else
    return encode(low) | uint32_t{encode(high)} << 16;
#endif
  }
  HOCKET_ELEMENT static Wide divide(Wide value, int64_t divisor) { return value / static_cast<float>(divisor); }
};

template <typename T>
struct NativeElement {
  using Storage = T;
  using Wide = T;
  HOCKET_ELEMENT static Wide decode(Storage value) { return value; }
  HOCKET_ELEMENT static Storage encode(Wide value) { return value; }
  // Divisors are positive.
  HOCKET_ELEMENT static Wide divide(Wide value, int64_t divisor) {
    if constexpr (std::is_unsigned_v<T>) return static_cast<T>(value / static_cast<uint64_t>(divisor));
    if constexpr (std::is_signed_v<T> && !std::is_floating_point_v<T>) return static_cast<T>(value / divisor);
    return static_cast<T>(value / static_cast<T>(divisor));
  }
};

template <DataType type>
struct Of;
template <>
struct Of<DataType::kInt8> : NativeElement<int8_t> {};
template <>
struct Of<DataType::kUint8> : NativeElement<uint8_t> {};
template <>
struct Of<DataType::kInt32> : NativeElement<int32_t> {};
template <>
struct Of<DataType::kUint32> : NativeElement<uint32_t> {};
template <>
struct Of<DataType::kInt64> : NativeElement<int64_t> {};
template <>
struct Of<DataType::kUint64> : NativeElement<uint64_t> {};
template <>
struct Of<DataType::kFloat32> : NativeElement<float> {};
template <>
struct Of<DataType::kFloat64> : NativeElement<double> {};
template <>
struct Of<DataType::kFloat16> : Float16Element {};
template <>
struct Of<DataType::kBfloat16> : Bfloat16Element {};
template <>
struct Of<DataType::kFloat8e4m3> : NarrowElement<Float8e4m3Format> {};
template <>
struct Of<DataType::kFloat8e5m2> : NarrowElement<Float8e5m2Format> {};

// `a` (op) `b`, where `a` is the earlier operand.
template <ReduceOp op, typename T>
HOCKET_ELEMENT T apply(T a, T b) {
  if constexpr (op == ReduceOp::kMax || op == ReduceOp::kMin) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return a + b;
    }
    return (op == ReduceOp::kMax ? a < b : b < a) ? b : a;
  } else if constexpr (std::is_floating_point_v<T>) {
    static_assert(op == ReduceOp::kSum || op == ReduceOp::kProd);
    return op == ReduceOp::kSum ? a + b : a * b;
  } else {
    const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    if constexpr (op == ReduceOp::kSum) return static_cast<T>(x + y);
    if constexpr (op == ReduceOp::kProd) return static_cast<T>(x * y);
    if constexpr (op == ReduceOp::kBitAnd) return static_cast<T>(x & y);
    if constexpr (op == ReduceOp::kBitOr) return static_cast<T>(x | y);
    if constexpr (op == ReduceOp::kBitXor) return static_cast<T>(x ^ y);
    if constexpr (op == ReduceOp::kLogicalAnd) return static_cast<T>(x != 0 && y != 0);
    if constexpr (op == ReduceOp::kLogicalOr) return static_cast<T>(x != 0 || y != 0);
    if constexpr (op == ReduceOp::kLogicalXor) return static_cast<T>((x != 0) != (y != 0));
  }
}

}  // namespace hocket::element
