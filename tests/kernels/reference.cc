// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors

#include "tests/kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace hocket::reference {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

__extension__ typedef __int128 Integer;
__extension__ typedef unsigned __int128 Unsigned;

struct Traits {
  int bytes;
  bool is_signed;
};

Traits integer_traits(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return {1, true};
    case DataType::kUint8:
      return {1, false};
    case DataType::kInt32:
      return {4, true};
    case DataType::kUint32:
      return {4, false};
    case DataType::kInt64:
      return {8, true};
    default:
      return {8, false};
  }
}

// The value modulo 2^bits, as the type would hold it.
Integer wrapped(Integer value, Traits traits) {
  const Integer modulus = Integer{1} << (8 * traits.bytes);
  Integer rest = value % modulus;
  if (rest < 0) rest += modulus;
  if (traits.is_signed && rest >= modulus / 2) rest -= modulus;
  return rest;
}

Integer operate(ReduceOp op, Integer a, Integer b) {
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kProd:
      return static_cast<Integer>(static_cast<Unsigned>(a) * static_cast<Unsigned>(b));
    case ReduceOp::kMax:
      return a > b ? a : b;
    case ReduceOp::kMin:
      return a < b ? a : b;
    case ReduceOp::kBitAnd:
      return a & b;
    case ReduceOp::kBitOr:
      return a | b;
    case ReduceOp::kBitXor:
      return a ^ b;
    case ReduceOp::kLogicalAnd:
      return (a != 0) && (b != 0);
    case ReduceOp::kLogicalOr:
      return (a != 0) || (b != 0);
    case ReduceOp::kLogicalXor:
      return (a != 0) != (b != 0);
  }
  return 0;
}

double operate(ReduceOp op, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  switch (op) {
    case ReduceOp::kSum:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMax:
      return a > b ? a : b;
    default:
      return a < b ? a : b;
  }
}

uint64_t load(const std::byte* from, size_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, bytes);
  return bits;
}

double load_float(DataType type, const std::byte* from) {
  if (type == DataType::kFloat64) {
    double value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  if (type == DataType::kFloat32) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  return decode(format_of(type), static_cast<uint32_t>(load(from, element_bytes(type))));
}

void store_float(DataType type, double value, std::byte* to) {
  if (type == DataType::kFloat64) {
    std::memcpy(to, &value, sizeof value);
  } else if (type == DataType::kFloat32) {
    const float narrow = static_cast<float>(value);
    std::memcpy(to, &narrow, sizeof narrow);
  } else {
    const uint32_t code = encode(format_of(type), value);
    std::memcpy(to, &code, element_bytes(type));
  }
}

void combine_float(const Combine& c, size_t at, std::byte* to) {
  const bool is_double = c.type == DataType::kFloat64;
  // A double holds the sum, product and quotient of two float32 well enough to round them to float32 correctly.
  const auto round = [&](double value) { return is_double ? value : static_cast<double>(static_cast<float>(value)); };
  const auto source = [&](size_t s) {
    const double value = load_float(c.type, c.sources[s] + at);
    if (!c.scale_first || !(c.first_mask >> s & 1)) return value;
    std::byte scaled[8];
    store_float(c.type, round(value * load_float(c.type, static_cast<const std::byte*>(c.scale_first))), scaled);
    return load_float(c.type, scaled);
  };
  double result = source(0);
  for (size_t s = 1; s < c.sources.size(); ++s) result = round(operate(c.op, result, source(s)));
  if (c.divide_last) result = round(result / static_cast<double>(c.divide_last));
  store_float(c.type, result, to);
}

void combine_integer(const Combine& c, size_t at, std::byte* to) {
  const Traits traits = integer_traits(c.type);
  const auto value_at = [&](const std::byte* from) {
    return wrapped(static_cast<Integer>(load(from, static_cast<size_t>(traits.bytes))), traits);
  };
  const auto source = [&](size_t s) {
    const Integer value = value_at(c.sources[s] + at);
    if (!c.scale_first || !(c.first_mask >> s & 1)) return value;
    return wrapped(operate(ReduceOp::kProd, value, value_at(static_cast<const std::byte*>(c.scale_first))), traits);
  };
  Integer result = source(0);
  for (size_t s = 1; s < c.sources.size(); ++s) result = wrapped(operate(c.op, result, source(s)), traits);
  if (c.divide_last) result = result / c.divide_last;
  const uint64_t bits = static_cast<uint64_t>(result);
  std::memcpy(to, &bits, static_cast<size_t>(traits.bytes));
}

}  // namespace

Format format_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {5, 10, true, false};
    case DataType::kBfloat16:
      return {8, 7, true, false};
    case DataType::kFloat8e4m3:
      return {4, 3, false, true};
    default:
      return {5, 2, true, true};
  }
}

double decode(const Format& format, uint32_t code) {
  const uint32_t mantissa = code & ((1u << format.mantissa_bits) - 1);
  const uint32_t top = (1u << format.exponent_bits) - 1;
  const uint32_t exponent = code >> format.mantissa_bits & top;
  const double sign = code >> (format.bits() - 1) & 1 ? -1.0 : 1.0;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  if (is_nan(format, code)) return kNan;
  if (format.infinity && exponent == top) return sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  const uint32_t whole = mantissa + (1u << format.mantissa_bits);
  return sign * std::ldexp(whole, static_cast<int>(exponent) - bias - format.mantissa_bits);
}

bool is_nan(const Format& format, uint32_t code) {
  const uint32_t magnitude = code & ((1u << (format.bits() - 1)) - 1);
  const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
  return format.infinity ? magnitude > infinity : magnitude == (1u << (format.bits() - 1)) - 1;
}

uint32_t encode(const Format& format, double value) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t all = (1u << (format.bits() - 1)) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (format.bits() - 1) : 0;
  const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
  const uint32_t largest = format.infinity ? infinity - 1 : all - 1;
  if (std::isnan(value)) return sign | all;
  if (std::isinf(value) && format.infinity) return sign | infinity;
  if (value == 0) return sign;
  // The spacing of representable numbers around the value; nearbyint rounds to nearest, ties to even.
  const double magnitude = std::isinf(value) ? std::numeric_limits<float>::max() : std::fabs(value);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int spacing = std::max(exponent - 1, 1 - bias) - format.mantissa_bits;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(magnitude, -spacing)), spacing);
  if (rounded > decode(format, largest)) return sign | (format.saturates ? largest : infinity);
  if (rounded == 0) return sign;
  std::frexp(rounded, &exponent);
  const int biased = std::max(exponent - 1 + bias, 0);
  if (biased == 0) return sign | static_cast<uint32_t>(std::ldexp(rounded, bias - 1 + format.mantissa_bits));
  const double fraction = std::ldexp(rounded, format.mantissa_bits - (exponent - 1));
  const uint32_t mantissa = static_cast<uint32_t>(fraction) - (1u << format.mantissa_bits);
  return sign | static_cast<uint32_t>(biased) << format.mantissa_bits | mantissa;
}

std::vector<std::byte> combine(const Combine& c) {
  const size_t bytes = element_bytes(c.type);
  std::vector<std::byte> result(c.count * bytes);
  const bool untouched = c.sources.size() == 1 && c.divide_last == 0 && (!c.scale_first || !(c.first_mask & 1));
  for (size_t i = 0; i < c.count; ++i) {
    if (untouched) {
      std::memcpy(&result[i * bytes], c.sources[0] + i * bytes, bytes);
    } else if (is_float(c.type)) {
      combine_float(c, i * bytes, &result[i * bytes]);
    } else {
      combine_integer(c, i * bytes, &result[i * bytes]);
    }
  }
  return result;
}

bool same(DataType type, ReduceOp op, const std::byte* a, const std::byte* b) {
  if (std::memcmp(a, b, element_bytes(type)) == 0) return true;
  if (!is_float(type)) return false;
  const double x = load_float(type, a), y = load_float(type, b);
  if (std::isnan(x) && std::isnan(y)) return true;
  return (op == ReduceOp::kMax || op == ReduceOp::kMin) && x == 0 && y == 0;
}

}  // namespace hocket::reference
