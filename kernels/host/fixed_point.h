// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One accumulator: a two's complement number of 64-bit limbs, lowest first, in units of a power of two. The uppermost
// byte is no part of the number; it says what no number can. Knows floats by their parts only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace hocket::host {

// What a float type can hold: significands of `precision` bits, the last of which is worth 2^finest or more.
struct Rounding {
  int precision;
  int finest;
};

template <size_t kLimbs, int kUnit>
class FixedPoint {
 public:
  static FixedPoint load(const std::byte* memory) {
    FixedPoint number;
    std::memcpy(number.limbs_.data(), memory, sizeof number.limbs_);
    return number;
  }
  void store(std::byte* memory) const { std::memcpy(memory, limbs_.data(), sizeof limbs_); }

  // Of a multiple of 2^kUnit.
  static FixedPoint of(double value) {
    FixedPoint number;
    const auto bits = std::bit_cast<uint64_t>(value);
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
    const bool is_negative = bits >> 63 != 0;
    uint64_t significand = bits & ((uint64_t{1} << 52) - 1);
    uint64_t says = bits == uint64_t{1} << 63 ? 0 : kNotOnlyNegativeZeros;
    if (exponent == 0x7ff) {
      says |= significand != 0 ? kNan : is_negative ? kNegativeInfinity : kInfinity;
    } else {
      if (exponent != 0) significand |= uint64_t{1} << 52;
      number.place(significand, (exponent == 0 ? 1 : exponent) - 1075 - kUnit);
      if (is_negative) number.negate();
    }
    number.limbs_[kTop] = (number.limbs_[kTop] & kNumber) | says;
    return number;
  }

  FixedPoint& operator+=(const FixedPoint& other) {
    const uint64_t says = (limbs_[kTop] | other.limbs_[kTop]) & ~kNumber;
    uint64_t carry = 0;
    for (size_t i = 0; i < kLimbs; ++i) {
      uint64_t sum;
      const bool first = __builtin_add_overflow(limbs_[i], other.limbs_[i], &sum);
      const bool second = __builtin_add_overflow(sum, carry, &limbs_[i]);
      carry = static_cast<uint64_t>(first || second);
    }
    limbs_[kTop] = (limbs_[kTop] & kNumber) | says;
    return *this;
  }

  // Over `divide`, if it is not 0, and rounded to nearest even; an infinity where double has no such value.
  double rounded(const Rounding& to, int64_t divide) const {
    const uint64_t says = limbs_[kTop];
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const bool both = (says & kInfinity) != 0 && (says & kNegativeInfinity) != 0;
    if ((says & kNan) != 0 || both) return std::numeric_limits<double>::quiet_NaN();
    if ((says & kInfinity) != 0) return kInf;
    if ((says & kNegativeInfinity) != 0) return -kInf;
    if (is_zero()) return (says & kNotOnlyNegativeZeros) != 0 ? 0.0 : -0.0;
    FixedPoint magnitude = *this;
    const bool is_negative = (says >> 55 & 1) != 0;
    if (is_negative) magnitude.negate();
    magnitude.limbs_[kTop] &= kNumber;
    const double value = magnitude.rounded_magnitude(to, divide);
    return is_negative ? -value : value;
  }

 private:
  static constexpr size_t kTop = kLimbs - 1;
  static constexpr uint64_t kNumber = (uint64_t{1} << 56) - 1;
  static constexpr uint64_t kNan = uint64_t{1} << 56;
  static constexpr uint64_t kInfinity = uint64_t{1} << 57;
  static constexpr uint64_t kNegativeInfinity = uint64_t{1} << 58;
  static constexpr uint64_t kNotOnlyNegativeZeros = uint64_t{1} << 59;

  // A magnitude with one more limb below, for what a division leaves.
  using Extended = std::array<uint64_t, kLimbs + 1>;

  void place(uint64_t significand, int shift) {
    if (shift < 0) {
      limbs_[0] = significand >> -shift;  // its lowest bits are zeros
      return;
    }
    const auto limb = static_cast<size_t>(shift) / 64;
    const int bit = shift % 64;
    limbs_[limb] = significand << bit;
    if (bit > 0 && limb < kTop) limbs_[limb + 1] = significand >> (64 - bit);
  }

  void negate() {
    uint64_t carry = 1;
    for (uint64_t& limb : limbs_) carry = static_cast<uint64_t>(__builtin_add_overflow(~limb, carry, &limb));
  }

  bool is_zero() const {
    uint64_t any = limbs_[kTop] & kNumber;
    for (size_t i = 0; i < kTop; ++i) any |= limbs_[i];
    return any == 0;
  }

  // Returns whether there is a remainder. Divisors are less than 2^32, so that half limbs do.
  static bool divide_by(uint64_t divisor, Extended& number) {
    uint64_t rest = 0;
    for (size_t i = number.size(); i-- > 0;) {
      const uint64_t upper = rest << 32 | number[i] >> 32;
      const uint64_t lower = upper % divisor << 32 | (number[i] & 0xffffffffu);
      number[i] = upper / divisor << 32 | lower / divisor;
      rest = lower % divisor;
    }
    return rest != 0;
  }

  // Bits [first, first + count) of a number, at most 64.
  static uint64_t bits_at(const Extended& number, int first, int count) {
    const auto limb = static_cast<size_t>(first) / 64;
    const int bit = first % 64;
    uint64_t bits = number[limb] >> bit;
    if (bit > 0 && limb + 1 < number.size()) bits |= number[limb + 1] << (64 - bit);
    return count == 64 ? bits : bits & ((uint64_t{1} << count) - 1);
  }

  static bool any_below(const Extended& number, int end) {
    const auto limb = static_cast<size_t>(end) / 64;
    for (size_t i = 0; i < limb; ++i) {
      if (number[i] != 0) return true;
    }
    return end % 64 != 0 && number[limb] << (64 - end % 64) != 0;
  }

  double rounded_magnitude(const Rounding& to, int64_t divide) const {
    Extended number{};
    std::memcpy(&number[1], limbs_.data(), sizeof limbs_);
    constexpr int kLowest = kUnit - 64;
    const bool leaves = divide > 1 && divide_by(static_cast<uint64_t>(divide), number);
    size_t top = kLimbs;
    while (number[top] == 0) --top;  // a quotient of 1 / 2^32 is not 0 here
    const int highest = static_cast<int>(top) * 64 + 63 - std::countl_zero(number[top]);
    const int last = std::max(highest - to.precision + 1, to.finest - kLowest);
    uint64_t significand = highest < last ? 0 : bits_at(number, last, highest - last + 1);
    const bool half = bits_at(number, last - 1, 1) != 0;
    const bool more = leaves || any_below(number, last - 1);
    if (half && (more || significand % 2 == 1)) ++significand;
    return std::ldexp(static_cast<double>(significand), last + kLowest);
  }

  std::array<uint64_t, kLimbs> limbs_{};
};

}  // namespace hocket::host
