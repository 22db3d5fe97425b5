// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Compressors of several collectives through the C API: the same bits on all ranks, in any algorithm where they promise
// it, a state that survives a checkpoint, and wrong use told by name.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/api/codec.h"
#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using Values = std::vector<float>;
constexpr size_t kCount = 20011;

Values input(int rank, uint64_t step) {
  std::mt19937_64 random(1000 * step + static_cast<uint64_t>(rank) + 1);
  std::normal_distribution<float> normal(0, 1);
  Values values(kCount);
  for (float& value : values) value = normal(random);
  return values;
}

Values step(const Member& member, const Codec& codec, const char* key, uint64_t number, hocketRedOp_t op = hocketSum) {
  Values values = input(member.rank, number);
  EXPECT_EQ(hocketAllReduceCompressed(values.data(), values.data(), kCount, hocketFloat32, op, codec, key, member.comm,
                                      nullptr),
            hocketSuccess)
      << hocketGetLastError(member.comm);
  return values;
}

std::vector<double> sum_of(int ranks, uint64_t number) {
  std::vector<double> sum(kCount);
  for (int rank = 0; rank < ranks; ++rank) {
    const Values values = input(rank, number);
    for (size_t i = 0; i < kCount; ++i) sum[i] += static_cast<double>(values[i]);
  }
  return sum;
}

class Programs : public testing::TestWithParam<const char*> {};

TEST_P(Programs, GiveAllRanksTheSameBitsAndComeToTheSum) {
  constexpr int kRanks = 3;
  constexpr int kSteps = 30;
  std::vector<Values> results(kRanks);
  run_threads(kRanks, [&](Member& member) {
    const Codec codec(GetParam());
    for (uint64_t number = 0; number < kSteps; ++number) {
      const Values result = step(member, codec, "w", 1, hocketAvg);
      Values& sum = results[static_cast<size_t>(member.rank)];
      sum.resize(kCount);
      for (size_t i = 0; i < kCount; ++i) sum[i] += result[i];
    }
  });
  for (const Values& result : results) ASSERT_EQ(results[0], result);
  const std::vector<double> wanted = sum_of(kRanks, 1);
  double off = 0, whole = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double mean = wanted[i] / kRanks;
    off += std::pow(static_cast<double>(results[0][i]) / kSteps - mean, 2);
    whole += mean * mean;
  }
  EXPECT_LT(std::sqrt(off / whole), 0.5);
}

TEST_P(Programs, GoOnFromASavedStateWithTheSameBits) {
  run_threads(2, [&](Member& member) {
    const Codec straight(GetParam()), resumed(GetParam());
    for (uint64_t number = 0; number < 3; ++number) step(member, straight, "w", number);
    size_t bytes = 0;
    ASSERT_EQ(hocketCodecSaveState(straight, nullptr, &bytes), hocketSuccess);
    std::string state(bytes, '\0');
    ASSERT_EQ(hocketCodecSaveState(straight, state.data(), &bytes), hocketSuccess);
    ASSERT_EQ(hocketCodecLoadState(resumed, state.data(), state.size()), hocketSuccess);
    for (uint64_t number = 3; number < 6; ++number) {
      ASSERT_EQ(step(member, straight, "w", number), step(member, resumed, "w", number)) << "step " << number;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Specifications, Programs,
                         testing::Values("shared:bits=4,round=stochastic", "powersgd:rank=40",
                                         "dgc:ratio=0.2,momentum=0", "topk:ratio=0.2,feedback=both",
                                         "sign:feedback=ef21", "int4:rotate=1,scale=minmax,feedback=ef21",
                                         "topk:ratio=0.2,feedback=ef21"));

TEST(SharedScale, IsTheSameByEveryAlgorithm) {
  std::vector<Values> results;
  for (const char* algorithm : {"ring", "recursive_doubling", "two_shot", "circulant"}) {
    hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
    config.algorithm = algorithm;
    run_threads(
        3,
        [&](Member& member) {
          const Codec codec("shared");
          const Values result = step(member, codec, nullptr, 1);
          if (member.rank == 0) results.push_back(result);
        },
        config);
  }
  for (const Values& result : results) EXPECT_EQ(results[0], result);
}

TEST(ProgramErrors, AreNamed) {
  run_threads(2, [&](Member& member) {
    Values values(kCount, 1.0f);
    const Codec dgc("dgc"), powersgd("powersgd:rank=2"), shared("shared");
    const auto call = [&](hocketCodec_t codec, hocketDataType_t type, hocketRedOp_t op, const char* key) {
      return hocketAllReduceCompressed(values.data(), values.data(), 100, type, op, codec, key, member.comm, nullptr);
    };
    expect_error(call(dgc, hocketFloat32, hocketSum, nullptr), hocketInvalidArgument, member.comm,
                 {"key: codec dgc", "it needs one"});
    expect_error(call(shared, hocketInt32, hocketSum, nullptr), hocketInvalidArgument, member.comm,
                 {"datatype: codec shared", "does not take int32"});
    expect_error(call(shared, hocketFloat32, hocketMax, nullptr), hocketInvalidArgument, member.comm,
                 {"op: codec shared", "sum and avg only, not max"});
    expect_error(hocketAllGatherCompressed(values.data(), values.data() + 100, 10, hocketFloat32, powersgd, member.comm,
                                           nullptr),
                 hocketInvalidUsage, member.comm, {"codec powersgd", "compresses all_reduce only"});
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    expect_error(hocketAllReduceCompressed(values.data(), values.data(), 100, hocketFloat32, hocketSum, shared, nullptr,
                                           member.comm, hocketQueueStream(queue)),
                 hocketInvalidUsage, member.comm, {"codec: shared", "needs a call that blocks"});
    ASSERT_EQ(hocketQueueDestroy(queue), hocketSuccess);
    ASSERT_EQ(hocketGroupStart(), hocketSuccess);
    expect_error(call(shared, hocketFloat32, hocketSum, nullptr), hocketInvalidUsage, member.comm,
                 {"codec: shared", "needs a call that blocks: stream NULL, outside groups"});
    EXPECT_EQ(hocketGroupEnd(), hocketInvalidUsage);
    ASSERT_EQ(call(shared, hocketFloat32, hocketSum, nullptr), hocketSuccess);
  });
  double relative = 0, absolute = 0;
  const Codec powersgd("powersgd"), shared("shared");
  EXPECT_EQ(hocketCodecErrorBound(powersgd, hocketFuncAllReduce, hocketFloat32, 4, &relative, &absolute),
            hocketInvalidUsage);
  ASSERT_EQ(hocketCodecErrorBound(shared, hocketFuncAllReduce, hocketFloat32, 4, &relative, &absolute), hocketSuccess);
  EXPECT_NEAR(relative, 4 * 0.5 / 127, 1e-4);
  hocketCodec_t none = nullptr;
  EXPECT_EQ(hocketCodecCreate(&none, "int4:round=stochastic,feedback=ef21"), hocketInvalidArgument);
  EXPECT_NE(std::string(hocketGetLastError(nullptr)).find("what is kept would grow"), std::string::npos);
  EXPECT_EQ(hocketCodecCreate(&none, "powersgd:rank=0"), hocketInvalidArgument);
  EXPECT_STREQ("codec 'powersgd:rank=0': rank=0 is not allowed: expected a whole number from 1 to 64",
               hocketGetLastError(nullptr));
}

// Their collectives look alike, so the sums would be wrong, or not of what all asked for.
TEST(ProgramErrors, RanksWithDifferentProgramsFindOut) {
  const auto call = [](Member& member, const char* one, const char* other) {
    Values values(kCount, 1.0f);
    const Codec codec(member.rank == 0 ? one : other);
    expect_error(hocketAllReduceCompressed(values.data(), values.data(), kCount, hocketFloat32, hocketSum, codec, "w",
                                           member.comm, nullptr),
                 hocketInvalidUsage, member.comm, {"does not match", "codec #"});
  };
  run_threads(2, [&](Member& member) { call(member, "powersgd:seed=0", "powersgd:seed=1"); });
  run_threads(2, [&](Member& member) { call(member, "shared", "shared:round=stochastic"); });
  run_threads(2, [&](Member& member) { call(member, "dgc:momentum=0.9", "dgc:momentum=0.5"); });
}

}  // namespace
}  // namespace hocket::test
