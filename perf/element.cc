// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "element.h"

#include <array>
#include <bit>
#include <cstring>

namespace hocket::perf {
namespace {

constexpr int64_t kPlenty = 1 << 24;  // larger numbers would prove nothing more

constexpr std::array<ElementType, 12> kElementTypes = {{
    {"int8", hocketInt8, 1, Kind::kSigned, 127, 0, 0},
    {"uint8", hocketUint8, 1, Kind::kUnsigned, 255, 0, 0},
    {"int32", hocketInt32, 4, Kind::kSigned, kPlenty, 0, 0},
    {"uint32", hocketUint32, 4, Kind::kUnsigned, kPlenty, 0, 0},
    {"int64", hocketInt64, 8, Kind::kSigned, kPlenty, 0, 0},
    {"uint64", hocketUint64, 8, Kind::kUnsigned, kPlenty, 0, 0},
    {"half", hocketFloat16, 2, Kind::kFloat, 2048, 5, 10},
    {"float", hocketFloat32, 4, Kind::kFloat, kPlenty, 0, 0},
    {"double", hocketFloat64, 8, Kind::kFloat, kPlenty, 0, 0},
    {"bfloat16", hocketBfloat16, 2, Kind::kFloat, 256, 8, 7},
    {"f8e4m3", hocketFloat8e4m3, 1, Kind::kFloat, 16, 4, 3},
    {"f8e5m2", hocketFloat8e5m2, 1, Kind::kFloat, 8, 5, 2},
}};

constexpr std::array<ReduceOp, 12> kReduceOps = {{
    {"sum", hocketSum, Fold::kSum, false},
    {"prod", hocketProd, Fold::kProd, false},
    {"max", hocketMax, Fold::kMax, false},
    {"min", hocketMin, Fold::kMin, false},
    {"avg", hocketAvg, Fold::kAvg, false},
    {"mulsum", hocketMaxRedOp, Fold::kMulSum, false},
    {"band", hocketBitAnd, Fold::kBitAnd, true},
    {"bor", hocketBitOr, Fold::kBitOr, true},
    {"bxor", hocketBitXor, Fold::kBitXor, true},
    {"land", hocketLogicalAnd, Fold::kLogicalAnd, true},
    {"lor", hocketLogicalOr, Fold::kLogicalOr, true},
    {"lxor", hocketLogicalXor, Fold::kLogicalXor, true},
}};

// Sign, exponent, mantissa of a whole number that is exact in the format.
uint16_t encode_small_float(int64_t value, int exponent_bits, int mantissa_bits) {
  if (value == 0) return 0;
  const unsigned sign = value < 0 ? 1u : 0u;
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
  const int exponent = static_cast<int>(std::bit_width(magnitude)) - 1;
  const uint64_t fraction = ((magnitude << mantissa_bits) >> exponent) & ((uint64_t{1} << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  return static_cast<uint16_t>((sign << (exponent_bits + mantissa_bits)) |
                               (static_cast<unsigned>(exponent + bias) << mantissa_bits) | fraction);
}

template <typename T>
void store(T value, std::byte* into) {
  std::memcpy(into, &value, sizeof(value));
}

}  // namespace

std::span<const ElementType> element_types() { return kElementTypes; }
std::span<const ReduceOp> reduce_ops() { return kReduceOps; }

void encode(const ElementType& type, int64_t value, std::byte* into) {
  if (type.exponent_bits != 0) {
    const uint16_t bits = encode_small_float(value, type.exponent_bits, type.mantissa_bits);
    return type.bytes == 1 ? store(static_cast<uint8_t>(bits), into) : store(bits, into);
  }
  if (type.kind == Kind::kFloat) {
    return type.bytes == 4 ? store(static_cast<float>(value), into) : store(static_cast<double>(value), into);
  }
  switch (type.bytes) {
    case 1:
      return store(static_cast<uint8_t>(value), into);
    case 4:
      return store(static_cast<uint32_t>(value), into);
    default:
      return store(static_cast<uint64_t>(value), into);
  }
}

}  // namespace hocket::perf
