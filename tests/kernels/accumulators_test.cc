// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sums by accumulators are the correctly rounded ones, whatever the order and grouping, bit for bit.
#include "kernels/accumulators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/kernels/exact_sum.h"

namespace hocket {
namespace {

using reference::Bytes;

class Accumulators : public testing::TestWithParam<DataType> {
 protected:
  static Bytes extended(const Bytes& values) {
    const size_t count = values.size() / element_bytes(GetParam());
    Bytes result(count * element_bytes(accumulator_of(GetParam())));
    to_accumulators(GetParam(), values.data(), result.data(), count);
    return result;
  }

  // Joins any two until one is left.
  static Bytes sum_in_any_order(std::vector<Bytes> terms, uint64_t seed) {
    std::mt19937_64 random(seed);
    const DataType type = accumulator_of(GetParam());
    while (terms.size() > 1) {
      std::shuffle(terms.begin(), terms.end(), random);
      const std::byte* sources[] = {terms.back().data(), terms.front().data()};
      std::byte* destination = terms.front().data();
      combine({.type = type,
               .op = ReduceOp::kSum,
               .sources = sources,
               .destinations = {&destination, 1},
               .count = terms.front().size() / element_bytes(type)});
      terms.pop_back();
    }
    return terms.front();
  }

  static Bytes rounded(const Bytes& sums, int64_t divide) {
    const size_t count = sums.size() / element_bytes(accumulator_of(GetParam()));
    Bytes result(count * element_bytes(GetParam()));
    from_accumulators(GetParam(), sums.data(), divide, result.data(), count);
    return result;
  }
};

TEST_P(Accumulators, RoundTheTrueSumOnce) {
  constexpr size_t kCount = 2000;
  for (const int ranks : {1, 2, 3, 5, 8, 17}) {
    for (const int64_t divide : {0, ranks}) {
      const auto seed = static_cast<uint64_t>(ranks);
      const std::vector<Bytes> given = reference::awkward(GetParam(), ranks, kCount, seed);
      std::vector<Bytes> terms;
      for (const Bytes& contribution : given) terms.push_back(extended(contribution));
      const Bytes result = rounded(sum_in_any_order(terms, seed), divide);
      EXPECT_EQ(result, rounded(sum_in_any_order(terms, seed + 1), divide)) << "another order, other bits";
      const std::vector<double> got = reference::numbers(GetParam(), result);
      const std::vector<double> wanted = reference::exact_sum(GetParam(), given, divide);
      for (size_t i = 0; i < kCount; ++i) {
        ASSERT_TRUE(reference::same(got[i], wanted[i]))
            << ranks << " ranks, over " << divide << ", element " << i << ": " << got[i] << ", not " << wanted[i];
      }
    }
  }
}

// 2^31 largest values of one sign: what doubling an accumulator 31 times amounts to.
TEST_P(Accumulators, HoldAsManyLargestValuesAsThereCanBeRanks) {
  std::vector<Bytes> all = reference::awkward(GetParam(), 1, 4000, 7);
  const std::vector<double> values = reference::numbers(GetParam(), all[0]);
  size_t most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) && !(values[i] <= values[most])) most = i;
  }
  const size_t bytes = element_bytes(GetParam());
  const Bytes one(all[0].begin() + static_cast<ptrdiff_t>(most * bytes),
                  all[0].begin() + static_cast<ptrdiff_t>((most + 1) * bytes));
  Bytes sum = extended(one);
  for (int i = 0; i < 31; ++i) sum = sum_in_any_order({sum, sum}, 1);
  EXPECT_EQ(rounded(sum, int64_t{1} << 31), one);
}

INSTANTIATE_TEST_SUITE_P(Types, Accumulators,
                         testing::Values(DataType::kFloat16, DataType::kFloat32, DataType::kFloat64,
                                         DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2),
                         [](const auto& type) { return std::string(name(type.param)); });

}  // namespace
}  // namespace hocket
