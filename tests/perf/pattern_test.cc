// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The data that all checking rests on: its sums are exact in every order, and no fault stays without a trace.
#include "perf/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::perf {
namespace {

constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 64};
constexpr uint64_t kSeed = 7;

template <typename Named>
const Named& named(std::span<const Named> all, std::string_view name) {
  return *std::ranges::find(all, name, &Named::name);
}

// Reads an element without the help of the code under test.
double small_float(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double fraction = (bits & ((1u << mantissa_bits) - 1)) / std::ldexp(1, mantissa_bits);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return (bits >> (exponent_bits + mantissa_bits)) & 1 ? -magnitude : magnitude;
}

template <typename T>
double load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return static_cast<double>(value);
}

double decode(const ElementType& type, const std::byte* from) {
  switch (type.type) {
    case hocketInt8:
      return load<int8_t>(from);
    case hocketUint8:
      return load<uint8_t>(from);
    case hocketInt32:
      return load<int32_t>(from);
    case hocketUint32:
      return load<uint32_t>(from);
    case hocketInt64:
      return load<int64_t>(from);
    case hocketUint64:
      return load<uint64_t>(from);
    case hocketFloat32:
      return load<float>(from);
    case hocketFloat64:
      return load<double>(from);
    case hocketFloat16:
      return small_float(static_cast<unsigned>(load<uint16_t>(from)), 5, 10);
    case hocketBfloat16:
      return small_float(static_cast<unsigned>(load<uint16_t>(from)), 8, 7);
    case hocketFloat8e4m3:
      return small_float(static_cast<unsigned>(load<uint8_t>(from)), 4, 3);
    default:
      return small_float(static_cast<unsigned>(load<uint8_t>(from)), 5, 2);
  }
}

std::vector<double> elements(const Pattern& pattern, const ElementType& type) {
  std::vector<std::byte> bytes(Pattern::kPeriod * type.bytes);
  pattern.write(bytes.data(), 0, Pattern::kPeriod);
  std::vector<double> values;
  for (size_t i = 0; i < Pattern::kPeriod; ++i) values.push_back(decode(type, &bytes[i * type.bytes]));
  return values;
}

double combine(Fold fold, double a, double b) {
  switch (fold) {
    case Fold::kProd:
      return a * b;
    case Fold::kMax:
      return std::max(a, b);
    case Fold::kMin:
      return std::min(a, b);
    default:
      return a + b;
  }
}

bool is_arithmetic(const ReduceOp& op) { return !op.integers_only; }

std::vector<std::vector<double>> contributions(const ElementType& type, const ReduceOp& op, int ranks) {
  std::vector<std::vector<double>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(elements(Pattern::contribution(type, op, rank, ranks, kSeed), type));
    for (double& value : all.back()) value *= op.fold == Fold::kMulSum ? static_cast<double>(mulsum_scalar(rank)) : 1;
  }
  return all;
}

double folded(const ReduceOp& op, const std::vector<std::vector<double>>& all, size_t element, size_t left_out) {
  bool first = true;
  double result = 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (rank == left_out) continue;
    result = first ? all[rank][element] : combine(op.fold, result, all[rank][element]);
    first = false;
  }
  return result;
}

double finished(const ElementType& type, const ReduceOp& op, double value, int ranks) {
  if (op.fold != Fold::kAvg) return value;
  return type.kind == Kind::kFloat ? value / ranks : std::trunc(value / ranks);
}

class PatternOf : public testing::TestWithParam<ElementType> {};

TEST_P(PatternOf, ReducesToWhatIsExpected) {
  const ElementType& type = GetParam();
  for (const ReduceOp& op : reduce_ops()) {
    for (const int ranks : kRankCounts) {
      if (!is_arithmetic(op)) continue;
      const auto all = contributions(type, op, ranks);
      const auto expected = elements(Pattern::reduction(type, op, ranks, kSeed), type);
      for (size_t i = 0; i < Pattern::kPeriod; ++i) {
        ASSERT_EQ(finished(type, op, folded(op, all, i, SIZE_MAX), ranks), expected[i])
            << op.name << ", " << ranks << " ranks, element " << i;
      }
    }
  }
}

// In whatever order and grouping: the sum of the magnitudes bounds every partial sum.
TEST_P(PatternOf, HasNoInexactPartialResult) {
  const ElementType& type = GetParam();
  for (const ReduceOp& op : reduce_ops()) {
    for (const int ranks : kRankCounts) {
      if (!is_arithmetic(op) || op.fold == Fold::kMax || op.fold == Fold::kMin) continue;
      const auto all = contributions(type, op, ranks);
      for (size_t i = 0; i < Pattern::kPeriod; ++i) {
        double bound = op.fold == Fold::kProd ? 1 : 0;
        for (const auto& of_rank : all) bound = combine(op.fold, bound, std::fabs(of_rank[i]));
        // Averages of floats need room for one more on the way.
        const double limit = op.fold == Fold::kProd ? 8 : static_cast<double>(type.exact_limit) + 1;
        ASSERT_LE(bound, limit) << op.name << ", " << ranks << " ranks, element " << i;
      }
    }
  }
}

// Were a rank forgotten, some element would tell.
TEST_P(PatternOf, NeedsEveryRank) {
  const ElementType& type = GetParam();
  for (const ReduceOp& op : reduce_ops()) {
    for (const int ranks : {2, 4, 7, 16}) {
      if (!is_arithmetic(op)) continue;
      const auto all = contributions(type, op, ranks);
      const auto expected = elements(Pattern::reduction(type, op, ranks, kSeed), type);
      for (size_t rank = 0; rank < all.size(); ++rank) {
        size_t differing = 0;
        for (size_t i = 0; i < Pattern::kPeriod; ++i) {
          if (finished(type, op, folded(op, all, i, rank), ranks) != expected[i]) ++differing;
        }
        EXPECT_GT(differing, 0u) << op.name << ", " << ranks << " ranks, without rank " << rank;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PatternOf, testing::ValuesIn(element_types().begin(), element_types().end()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(Pattern, CombinesBitsAndTruths) {
  const ElementType& type = named(element_types(), "uint8");
  const int ranks = 3;
  for (const ReduceOp& op : reduce_ops()) {
    if (is_arithmetic(op)) continue;
    std::vector<std::vector<double>> all = contributions(type, op, ranks);
    const auto expected = elements(Pattern::reduction(type, op, ranks, kSeed), type);
    size_t ones = 0;
    for (size_t i = 0; i < Pattern::kPeriod; ++i) {
      const auto at = [&](size_t rank) { return static_cast<unsigned>(all[rank][i]); };
      const auto is = [&](size_t rank) { return at(rank) != 0; };
      unsigned result = 0;
      switch (op.fold) {
        case Fold::kBitAnd:
          result = at(0) & at(1) & at(2);
          break;
        case Fold::kBitOr:
          result = at(0) | at(1) | at(2);
          break;
        case Fold::kBitXor:
          result = at(0) ^ at(1) ^ at(2);
          break;
        case Fold::kLogicalAnd:
          result = is(0) && is(1) && is(2);
          break;
        case Fold::kLogicalOr:
          result = is(0) || is(1) || is(2);
          break;
        default:
          result = (is(0) != is(1)) != is(2);
          break;
      }
      ASSERT_EQ(expected[i], result) << op.name << ", element " << i;
      ones += result & 1;
    }
    EXPECT_GT(ones, Pattern::kPeriod / 20) << op.name;
    EXPECT_LT(ones, Pattern::kPeriod / 20 * 19) << op.name;
  }
}

TEST(Pattern, CountsEveryWrongElement) {
  const ElementType& type = named(element_types(), "float");
  const Pattern pattern = Pattern::reduction(type, named(reduce_ops(), "sum"), 4, kSeed);
  constexpr size_t kCount = 3 * Pattern::kPeriod + 17;
  std::vector<std::byte> data(kCount * type.bytes);
  pattern.write(data.data(), 5, kCount);
  EXPECT_EQ(pattern.wrong(data.data(), 5, kCount), 0u);
  for (const size_t element : {size_t{0}, Pattern::kPeriod - 6, Pattern::kPeriod, kCount - 1}) {
    data[element * type.bytes] ^= std::byte{1};
  }
  EXPECT_EQ(pattern.wrong(data.data(), 5, kCount), 4u);
}

TEST(Pattern, ShowsDataInAWrongPlaceAtAnyDistance) {
  const Pattern pattern = Pattern::random_bits(4, kSeed);
  constexpr size_t kCount = 1000;
  std::vector<std::byte> data(kCount * 4);
  pattern.write(data.data(), 0, kCount);
  for (const size_t distance : {size_t{1}, size_t{1024}, Pattern::kPeriod, 2 * Pattern::kPeriod, size_t{1} << 20}) {
    EXPECT_GT(pattern.wrong(data.data(), distance, kCount), kCount / 2) << distance;
  }
}

TEST(Pattern, IsAnotherForEverySeedAndRank) {
  const ElementType& type = named(element_types(), "int32");
  const ReduceOp& op = named(reduce_ops(), "sum");
  std::vector<std::byte> data(1000 * type.bytes);
  Pattern::contribution(type, op, 0, 4, kSeed).write(data.data(), 0, 1000);
  EXPECT_GT(Pattern::contribution(type, op, 1, 4, kSeed).wrong(data.data(), 0, 1000), 900u);
  EXPECT_GT(Pattern::contribution(type, op, 0, 4, kSeed + 1).wrong(data.data(), 0, 1000), 900u);
  EXPECT_GT(Pattern::untouched(type.bytes).wrong(data.data(), 0, 1000), 900u);
}

}  // namespace
}  // namespace hocket::perf
