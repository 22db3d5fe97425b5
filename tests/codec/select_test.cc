// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The elements that top-k selects, against a sort of all.
#include "codec/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/select.h"
#include "tests/codec/samples.h"

namespace hocket {
namespace {

using Bytes = std::vector<std::byte>;

select::Selection by_sorting(DataType type, const Bytes& values, size_t k) {
  const size_t count = values.size() / element_bytes(type);
  const auto magnitude = [&](uint32_t index) { return magnitude_of(type, bits_at(type, values.data(), index)); };
  select::Selection best;
  best.indices.resize(count);
  std::iota(best.indices.begin(), best.indices.end(), 0u);
  std::ranges::stable_sort(best.indices, [&](uint32_t a, uint32_t b) { return magnitude(a) > magnitude(b); });
  best.indices.resize(std::min(k, count));
  std::ranges::sort(best.indices);
  for (const uint32_t index : best.indices) best.bits.push_back(bits_at(type, values.data(), index));
  return best;
}

std::vector<samples::Sample> long_ones() {
  std::vector<samples::Sample> list;
  for (const size_t count : {size_t{33}, size_t{4097}, size_t{50001}}) {
    const std::vector<float> gaussian = samples::gaussian(count, count);
    std::vector<float> coarse(count), rare(count);
    std::ranges::transform(gaussian, coarse.begin(), [](float value) { return std::round(value); });  // many are equal
    for (size_t i = 0; i < count; i += 29) rare[i] = gaussian[i];
    list.push_back({"gaussian", gaussian});
    list.push_back({"coarse", coarse});
    list.push_back({"mostly zero", rare});
    list.push_back({"all equal", std::vector<float>(count, -1.5F)});
  }
  return list;
}

TEST(Select, LargestIsWhatSortingFinds) {
  for (const auto& list : {samples::finite(1e4F), samples::special(), long_ones()}) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
      for (const samples::Sample& sample : list) {
        const Bytes values = samples::as(type, sample.values);
        const size_t count = sample.values.size();
        for (const size_t k : {size_t{1}, count / 1000, count / 100, count / 10, count / 2, count - 1, count}) {
          if (k == 0 || k > count) continue;
          const select::Selection found = select::largest({type, values.data(), count}, k),
                                  best = by_sorting(type, values, k);
          ASSERT_EQ(best.indices, found.indices) << sample.name << ", " << k << " of " << count << ", " << name(type);
          ASSERT_EQ(best.bits, found.bits) << sample.name << ", " << k << " of " << count << ", " << name(type);
        }
      }
    }
  }
}

// Where many are equal there may be none that so few reach: then it is the k-th.
TEST(Select, KthLargestIsThatOrReachedByFewMore) {
  const DataType type = DataType::kFloat32;
  for (const std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    for (const samples::Sample& sample : long_ones()) {
      const Bytes values = samples::as(type, sample.values);
      const size_t count = sample.values.size();
      const auto* bits = reinterpret_cast<const uint32_t*>(values.data());
      std::vector<uint32_t> sorted(bits, bits + count);
      for (uint32_t& one : sorted) one = magnitude_of(type, one);
      std::ranges::sort(sorted, std::greater());
      for (const size_t k : {size_t{1}, count / 100 + 1, count / 2, count}) {
        for (const size_t slack : {size_t{0}, size_t{1}, k / 4, count}) {
          const uint32_t found = kth_largest(type, bits, count, k, slack), exact = sorted[k - 1];
          const auto reach =
              static_cast<size_t>(std::ranges::upper_bound(sorted, found, std::greater()) - sorted.begin());
          EXPECT_GE(reach, k) << sample.name << ", " << set;
          EXPECT_TRUE(found == exact || (slack > 0 && reach <= k + slack))
              << sample.name << ", " << k << "+" << slack << ", " << set;
        }
      }
    }
  }
  force_instruction_set("");
}

}  // namespace
}  // namespace hocket
