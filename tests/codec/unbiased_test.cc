// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Codecs that round at random are right on average: over 4,000 draws the mean of every element is where it must be, as
// far as its own scatter allows. Rounding to nearest must fail the same test.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codec/codec.h"
#include "tests/codec/samples.h"

namespace hocket {
namespace {

constexpr size_t kCount = 4096;
constexpr int kDraws = 4000;

struct Scatter {
  double chi_squared = 0;  // over the number of elements; 1 where there is no bias
  double worst = 0;        // standard errors that some mean is off
};

// Sums of decoded values and of their squares, by element.
struct Moments {
  std::vector<double> sums = std::vector<double>(kCount), squares = std::vector<double>(kCount),
                      largest = std::vector<double>(kCount);

  void add(const std::vector<float>& decoded, const std::vector<float>& x) {
    for (size_t i = 0; i < kCount; ++i) {
      const double error = static_cast<double>(decoded[i]) - static_cast<double>(x[i]);
      sums[i] += error;
      squares[i] += error * error;
      largest[i] = std::max(largest[i], std::fabs(error));
    }
  }

  // Rounding that happens less often than a few times in all these draws shows no scatter of its own: no element counts
  // as surer than that.
  Scatter scatter() const {
    const double widest = *std::max_element(largest.begin(), largest.end());
    const double least = widest * widest * 4 / kDraws;
    Scatter result;
    for (size_t i = 0; i < kCount; ++i) {
      const double mean = sums[i] / kDraws;
      const double variance = std::max(squares[i] / kDraws - mean * mean, least);
      const double z = mean / std::sqrt(variance / kDraws);
      result.chi_squared += z * z / static_cast<double>(kCount);
      result.worst = std::max(result.worst, std::fabs(z));
    }
    return result;
  }
};

Scatter scatter_of(const std::string& specification) {
  const auto codec = make_codec(specification);
  EXPECT_TRUE(codec.ok()) << codec.status().message();
  // Of like magnitude, so that steps that depend on it are alike.
  std::vector<float> x = samples::gaussian(kCount, 77);
  for (float& value : x) value = std::copysign(0.25f + 0.75f * std::erf(std::fabs(value)), value);
  std::vector<float> decoded(kCount);
  std::vector<std::byte> message((*codec)->max_encoded_bytes(kCount, DataType::kFloat32));
  Moments moments;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    const ConstValues values{DataType::kFloat32, reinterpret_cast<const std::byte*>(x.data()), kCount};
    const size_t size = (*codec)->encode(values, draw, message);
    const Values to{DataType::kFloat32, reinterpret_cast<std::byte*>(decoded.data()), kCount};
    EXPECT_TRUE((*codec)->decode_reduce(std::span(message).first(size), std::nullopt, to).ok());
    moments.add(decoded, x);
  }
  return moments.scatter();
}

class Unbiased : public testing::TestWithParam<const char*> {};

TEST_P(Unbiased, MeansAreWhereTheyMustBe) {
  const Scatter scatter = scatter_of(GetParam());
  EXPECT_GT(scatter.chi_squared, 0.9);
  EXPECT_LT(scatter.chi_squared, 1.1);
  EXPECT_LT(scatter.worst, 5.5);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Unbiased,
                         testing::Values("int8:round=stochastic", "int6:round=stochastic,block=256",
                                         "int4:round=stochastic", "int4:round=stochastic,scale=minmax",
                                         "int4:round=stochastic,rotate=1", "int3:round=stochastic",
                                         "int2:round=stochastic", "qsgd:levels=7", "qsgd:levels=127", "terngrad",
                                         "natural", "randomk:ratio=0.25,unbiased=1"));

TEST(Unbiased, RoundingToNearestFails) {
  for (const char* specification : {"int8", "int4", "bf16"}) {
    const Scatter scatter = scatter_of(specification);
    EXPECT_GT(scatter.chi_squared, 1.1) << specification;
    EXPECT_GT(scatter.worst, 5.5) << specification;
  }
}

}  // namespace
}  // namespace hocket
