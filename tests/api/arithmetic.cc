// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/api/arithmetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace hocket::test {
namespace {

struct Type {
  const char* name;
  size_t bytes;
  bool is_signed;
  int exponent_bits;  // narrow floats only
  int mantissa_bits;  // 0: an integer
};

constexpr std::array<Type, hocketNumTypes> kTypes = {{
    {"int8", 1, true, 0, 0},
    {"uint8", 1, false, 0, 0},
    {"int32", 4, true, 0, 0},
    {"uint32", 4, false, 0, 0},
    {"int64", 8, true, 0, 0},
    {"uint64", 8, false, 0, 0},
    {"float16", 2, true, 5, 10},
    {"float32", 4, true, 8, 23},
    {"float64", 8, true, 11, 52},
    {"bfloat16", 2, true, 8, 7},
    {"float8e4m3", 1, true, 4, 3},
    {"float8e5m2", 1, true, 5, 2},
}};

constexpr std::array<const char*, kOperations> kNames = {
    "sum",     "prod",        "max",        "min",         "avg",        "bit_and",          "bit_or",
    "bit_xor", "logical_and", "logical_or", "logical_xor", "premul_sum", "user_commutative", "user_ordered"};

const Type& facts(hocketDataType_t type) { return kTypes[static_cast<size_t>(type)]; }

uint64_t random_bits(uint64_t seed, uint64_t a, uint64_t b) {
  uint64_t x = seed + a * 0x9E3779B97F4A7C15u + b * 0xD1B54A32D192ED03u + 0x632BE59BD9B4E019u;
  for (int round = 0; round < 3; ++round) {
    x ^= x >> 31;
    x *= 0x94D049BB133111EBu;
  }
  return x ^ (x >> 29);
}

uint64_t load(const Table& table, size_t index, size_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, &table[index * bytes], bytes);
  return bits;
}

void store(Table& table, size_t index, size_t bytes, uint64_t bits) {
  std::memcpy(&table[index * bytes], &bits, bytes);
}

// ---- Integers: modulo 2^width

int64_t sign_extended(uint64_t bits, size_t bytes) {
  const unsigned shift = static_cast<unsigned>(64 - 8 * bytes);
  return static_cast<int64_t>(bits << shift) >> shift;
}

uint64_t truncated(uint64_t bits, size_t bytes) {
  return bytes == 8 ? bits : bits & ((uint64_t{1} << (8 * bytes)) - 1);
}

uint64_t reduce_integers(int operation, uint64_t a, uint64_t b, const Type& type) {
  const bool less = type.is_signed ? sign_extended(a, type.bytes) < sign_extended(b, type.bytes) : a < b;
  switch (operation) {
    case hocketProd:
      return a * b;
    case hocketMax:
      return less ? b : a;
    case hocketMin:
      return less ? a : b;
    case hocketBitAnd:
      return a & b;
    case hocketBitOr:
      return a | b;
    case hocketBitXor:
      return a ^ b;
    case hocketLogicalAnd:
      return a != 0 && b != 0;
    case hocketLogicalOr:
      return a != 0 || b != 0;
    case hocketLogicalXor:
      return (a != 0) != (b != 0);
    default:
      return a + b;
  }
}

uint64_t divided(uint64_t sum, int ranks, const Type& type) {
  if (!type.is_signed) return sum / static_cast<uint64_t>(ranks);
  return static_cast<uint64_t>(sign_extended(sum, type.bytes) / ranks);
}

// ---- Floats: small whole numbers, exact in doubles

double value_of(uint64_t bits, const Type& type) {
  if (type.bytes == 8) {
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  const auto width = static_cast<unsigned>(8 * type.bytes);
  const double sign = (bits >> (width - 1) & 1) != 0 ? -1.0 : 1.0;
  const uint64_t mantissa = bits & ((uint64_t{1} << type.mantissa_bits) - 1);
  const auto exponent = static_cast<int>(bits >> type.mantissa_bits & ((uint64_t{1} << type.exponent_bits) - 1));
  const int bias = (1 << (type.exponent_bits - 1)) - 1;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -type.mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

// The nearest code, ties to the even one.
uint64_t code_of(double value, const Type& type) {
  uint64_t code = 0;
  if (type.bytes == 8) {
    std::memcpy(&code, &value, sizeof code);
    return code;
  }
  const double magnitude = std::fabs(value);
  if (magnitude > 0) {
    const int bias = (1 << (type.exponent_bits - 1)) - 1;
    const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
    const auto whole = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, type.mantissa_bits - exponent)));
    // A subnormal has exponent code 0 and no hidden bit; adding carries from mantissa to exponent as it should.
    code = (static_cast<uint64_t>(exponent + bias - 1) << type.mantissa_bits) + whole;
  }
  return code | (std::signbit(value) ? uint64_t{1} << (8 * type.bytes - 1) : 0);
}

double reduce_floats(int operation, double a, double b) {
  switch (operation) {
    case hocketProd:
      return a * b;
    case hocketMax:
      return std::max(a, b);
    case hocketMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

// Of few contributions that are neither 0 nor 1, so that sums stay below 9 and products between 1/16 and 16.
double float_contribution(int operation, int ranks, int rank, size_t index, uint64_t bits, const Type& type) {
  const auto whole = [&](int range) {
    return static_cast<double>(static_cast<int>(bits % static_cast<unsigned>(2 * range + 1)) - range);
  };
  if (operation == hocketMax || operation == hocketMin) return whole(7);
  const size_t places = static_cast<size_t>(std::max(ranks, 9)) | 1;
  const bool speaks = (static_cast<size_t>(rank) * 2 + index) % places < 4;
  if (operation == hocketProd) {
    constexpr double kFactors[] = {2, -2, 0.5, -1};
    return speaks ? kFactors[bits % 4] : 1;
  }
  const bool narrow = type.bytes == 1;
  if (operation == kPreMulSum) return narrow && !speaks ? 0 : whole(1);
  if (narrow) return speaks ? whole(2) : 0;
  return whole(3);
}

// ---- Created operations

uint64_t commutative(uint64_t a, uint64_t b) { return a + b + 3 * a * b; }

// In each half of the element: h below, p above.
uint64_t ordered(uint64_t a, uint64_t b, size_t bytes) {
  const unsigned half = static_cast<unsigned>(4 * bytes);
  const uint64_t mask = (uint64_t{1} << half) - 1;
  const uint64_t p = (a >> half) * (b >> half) & mask;
  const uint64_t h = ((a & mask) * (b >> half) + (b & mask)) & mask;
  return p << half | h;
}

template <typename Combine>
void for_all(const void* in, void* inout, size_t count, hocketDataType_t datatype, Combine combine) {
  const size_t bytes = bytes_of(datatype);
  for (size_t i = 0; i < count; ++i) {
    uint64_t a = 0;
    uint64_t b = 0;
    std::memcpy(&a, static_cast<const std::byte*>(in) + i * bytes, bytes);
    std::memcpy(&b, static_cast<std::byte*>(inout) + i * bytes, bytes);
    const uint64_t result = combine(a, b, bytes);
    std::memcpy(static_cast<std::byte*>(inout) + i * bytes, &result, bytes);
  }
}

bool is_user(int operation) { return operation == kUserCommutative || operation == kUserOrdered; }

// One position of the tables: contributions, then what they reduce to.
class Position {
 public:
  Position(Numbers& numbers, hocketDataType_t type, int operation, int ranks, size_t index)
      : numbers_(numbers), type_(facts(type)), operation_(operation), ranks_(ranks), index_(index) {}

  void fill(uint64_t seed) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const uint64_t bits = random_bits(seed, static_cast<uint64_t>(rank), index_);
      store(numbers_.contributions[static_cast<size_t>(rank)], index_, type_.bytes, contribution(rank, bits));
    }
  }

  void reduce() {
    uint64_t result = term(0);
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank > 0) result = combine(result, term(rank));
      store(numbers_.partial[static_cast<size_t>(rank)], index_, type_.bytes, result);
    }
    store(numbers_.total, index_, type_.bytes, operation_ == hocketAvg ? average(result) : result);
  }

 private:
  bool real() const { return type_.mantissa_bits > 0 && !is_user(operation_); }

  uint64_t contribution(int rank, uint64_t bits) const {
    if (operation_ == kUserOrdered) return truncated(bits | uint64_t{1} << (4 * type_.bytes), type_.bytes);  // p is odd
    if (real()) return code_of(float_contribution(operation_, ranks_, rank, index_, bits, type_), type_);
    if (type_.mantissa_bits > 0) return truncated(bits, type_.bytes);
    return bits >> 61 == 0 ? 0 : truncated(bits, type_.bytes);  // some zeros for the logical ones
  }

  // What rank brings: its contribution, multiplied or made 0 or 1 where the operation says so.
  uint64_t term(int rank) const {
    const auto r = static_cast<size_t>(rank);
    const uint64_t own = load(numbers_.contributions[r], index_, type_.bytes);
    if (operation_ >= hocketLogicalAnd && operation_ <= hocketLogicalXor) return own != 0;
    if (operation_ != kPreMulSum) return own;
    const uint64_t scalar = load(numbers_.scalars[r], 0, type_.bytes);
    if (!real()) return truncated(own * scalar, type_.bytes);
    return code_of(value_of(own, type_) * value_of(scalar, type_), type_);
  }

  uint64_t combine(uint64_t a, uint64_t b) const {
    if (operation_ == kUserOrdered) return ordered(a, b, type_.bytes);
    if (operation_ == kUserCommutative) return truncated(commutative(a, b), type_.bytes);
    if (real()) return code_of(reduce_floats(operation_, value_of(a, type_), value_of(b, type_)), type_);
    return truncated(reduce_integers(operation_, a, b, type_), type_.bytes);
  }

  uint64_t average(uint64_t sum) const {
    if (!real()) return truncated(divided(sum, ranks_, type_), type_.bytes);
    const double value = value_of(sum, type_);
    // Narrow floats are calculated in float32.
    return code_of(type_.bytes == 8 ? value / ranks_ : static_cast<float>(value) / static_cast<float>(ranks_), type_);
  }

  Numbers& numbers_;
  const Type& type_;
  const int operation_;
  const int ranks_;
  const size_t index_;
};

Table scalar_of(int rank, const Type& type, uint64_t seed) {
  Table table(type.bytes);
  constexpr double kScalars[] = {2, 1, -1, -2};
  const uint64_t bits = random_bits(seed, static_cast<uint64_t>(rank), kPeriod);
  store(table, 0, type.bytes, type.mantissa_bits > 0 ? code_of(kScalars[bits % 4], type) : truncated(bits, type.bytes));
  return table;
}

}  // namespace

const char* type_name(hocketDataType_t type) { return facts(type).name; }
const char* operation_name(int operation) { return kNames[static_cast<size_t>(operation)]; }
size_t bytes_of(hocketDataType_t type) { return facts(type).bytes; }
bool is_float(hocketDataType_t type) { return facts(type).mantissa_bits > 0; }
bool is_defined(hocketDataType_t type, int operation) {
  return !is_float(type) || operation <= hocketAvg || operation >= kPreMulSum;
}

Numbers::Numbers(hocketDataType_t type, int operation, int ranks, uint64_t seed)
    : contributions(static_cast<size_t>(ranks), Table(kPeriod * bytes_of(type))),
      partial(contributions),
      total(kPeriod * bytes_of(type)) {
  for (int rank = 0; rank < ranks; ++rank) scalars.push_back(scalar_of(rank, facts(type), seed));
  for (size_t index = 0; index < kPeriod; ++index) {
    Position position(*this, type, operation, ranks, index);
    position.fill(seed);
    position.reduce();
  }
}

void user_commutative(const void* in, void* inout, size_t count, hocketDataType_t datatype, void* /*context*/) {
  for_all(in, inout, count, datatype, [](uint64_t a, uint64_t b, size_t) { return commutative(a, b); });
}

void user_ordered(const void* in, void* inout, size_t count, hocketDataType_t datatype, void* /*context*/) {
  for_all(in, inout, count, datatype, ordered);
}

}  // namespace hocket::test
