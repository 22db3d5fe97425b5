// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Codecs that round at random are right on average: over 4,000 draws the mean of every element is where it must be, as
// far as its own scatter allows. Rounding to nearest must fail the same test.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "codec/codec.h"
#include "codec/programs/program.h"
#include "tests/codec/local_collectives.h"
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

  // Rounding that happens less often than a few times in all these draws shows no scatter of its own, and what happened
  // less often than it had to shows too little: no element counts as surer than that.
  Scatter scatter() const {
    const double widest = *std::max_element(largest.begin(), largest.end());
    Scatter result;
    for (size_t i = 0; i < kCount; ++i) {
      const double mean = sums[i] / kDraws;
      const double least = widest * std::max(widest * 4 / kDraws, std::fabs(mean));
      const double variance = std::max(squares[i] / kDraws - mean * mean, least);
      const double z = mean / std::sqrt(variance / kDraws);
      result.chi_squared += z * z / static_cast<double>(kCount);
      result.worst = std::max(result.worst, std::fabs(z));
    }
    return result;
  }
};

// Of like magnitude, so that steps that depend on it are alike.
std::vector<float> inputs(uint64_t seed) {
  std::vector<float> x = samples::gaussian(kCount, seed);
  for (float& value : x) value = std::copysign(0.25f + 0.75f * std::erf(std::fabs(value)), value);
  return x;
}

Scatter scatter_of(const std::string& specification) {
  const auto codec = make_codec(specification);
  EXPECT_TRUE(codec.ok()) << codec.status().message();
  const std::vector<float> x = inputs(77);
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

// Of the sums of two ranks that a program makes.
Scatter scatter_of_sums(const std::string& specification) {
  const Compression made = std::move(*make_compression(specification));
  const std::array<std::vector<float>, 2> x = {inputs(77), inputs(78)};
  std::vector<float> sum(kCount);
  for (size_t i = 0; i < kCount; ++i) sum[i] = x[0][i] + x[1][i];
  Moments moments;
  LocalTeam(2).run([&](Collectives& collectives) {
    const auto rank = static_cast<size_t>(collectives.rank());
    States::Tensor state;
    for (uint64_t draw = 0; draw < kDraws; ++draw) {
      std::vector<float> values = x[rank];
      EXPECT_TRUE(made.program->run({collectives, state, values, draw}).ok());
      if (rank == 0) moments.add(values, sum);
    }
  });
  return moments.scatter();
}

void expect_unbiased(const Scatter& scatter) {
  EXPECT_GT(scatter.chi_squared, 0.9);
  EXPECT_LT(scatter.chi_squared, 1.1);
  EXPECT_LT(scatter.worst, 5.5);
}

void expect_biased(const Scatter& scatter) {
  EXPECT_GT(scatter.chi_squared, 1.1);
  EXPECT_GT(scatter.worst, 5.5);
}

class Unbiased : public testing::TestWithParam<const char*> {};

TEST_P(Unbiased, MeansAreWhereTheyMustBe) { expect_unbiased(scatter_of(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Codecs, Unbiased,
                         testing::Values("int8:round=stochastic", "int8:round=stochastic,scale=minmax",
                                         "int6:round=stochastic,block=256", "int4:round=stochastic",
                                         "int4:round=stochastic,scale=minmax", "int4:round=stochastic,rotate=1",
                                         "int3:round=stochastic", "int2:round=stochastic",
                                         "int2:round=stochastic,scale=minmax", "qsgd:levels=127", "qsgd:levels=31",
                                         "qsgd:levels=7", "qsgd:levels=3", "qsgd:levels=1", "terngrad", "natural",
                                         "randomk:ratio=0.25,unbiased=1"));

TEST(Unbiased, SumsOfSharedScales) {
  for (const char* bits : {"8", "6", "4", "2"}) {
    SCOPED_TRACE(bits);
    expect_unbiased(scatter_of_sums(std::string("shared:round=stochastic,bits=") + bits));
  }
}

TEST(Unbiased, RoundingToNearestFails) {
  for (const char* specification : {"int8", "int4", "bf16"}) {
    SCOPED_TRACE(specification);
    expect_biased(scatter_of(specification));
  }
  expect_biased(scatter_of_sums("shared"));
}

}  // namespace
}  // namespace hocket
