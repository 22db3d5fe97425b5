// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocketGroupSimulateEnd: how long a group would take; and nothing of it runs.
#include <gtest/gtest.h>

#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

class SimulateGroup : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(hocketCommInitAll(comms_.data(), 2, nullptr), hocketSuccess); }
  void TearDown() override {
    for (const hocketComm_t comm : comms_) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
  }

  // Microseconds of a group that holds what `issue` issues.
  template <typename Issue>
  float time_of(const Issue& issue) {
    hocketSimInfo_t info = HOCKET_SIM_INFO_INITIALIZER;
    EXPECT_EQ(hocketGroupStart(), hocketSuccess);
    issue();
    EXPECT_EQ(hocketGroupSimulateEnd(&info), hocketSuccess) << hocketGetLastError(nullptr);
    return info.estimatedTime;
  }
  float time_of_all_reduce(size_t count) {
    return time_of([&] { all_reduce(0, count); });
  }
  void all_reduce(size_t rank, size_t count) {
    EXPECT_EQ(hocketAllReduce(send_.data(), recv_.data(), count, hocketFloat, hocketSum, comms_[rank], nullptr),
              hocketSuccess);
  }

  std::vector<hocketComm_t> comms_ = std::vector<hocketComm_t>(2);
  std::vector<float> send_ = std::vector<float>(1 << 20, 1);
  std::vector<float> recv_ = std::vector<float>(1 << 20, 5);
};

TEST_F(SimulateGroup, LongerCallsTakeLongerAndNothingRuns) {
  const float few = time_of_all_reduce(1);
  const float many = time_of_all_reduce(1 << 20);
  EXPECT_GT(few, 0);
  EXPECT_GT(many, 10 * few);
  EXPECT_EQ(recv_, std::vector<float>(1 << 20, 5));
  EXPECT_EQ(time_of([] {}), 0);
}

TEST_F(SimulateGroup, CallsOnOneCommunicatorAddUpAndOthersRunBeside) {
  const float one = time_of_all_reduce(1000);
  EXPECT_FLOAT_EQ(time_of([&] {
                    all_reduce(0, 1000);
                    all_reduce(0, 1000);
                  }),
                  2 * one);
  EXPECT_FLOAT_EQ(time_of([&] {
                    all_reduce(0, 1000);
                    all_reduce(1, 1000);
                  }),
                  one);
}

TEST_F(SimulateGroup, TransfersHaveATime) {
  const auto send = [&](size_t count, int peer) {
    return time_of(
        [&] { EXPECT_EQ(hocketSend(send_.data(), count, hocketFloat, peer, comms_[0], nullptr), hocketSuccess); });
  };
  EXPECT_GT(send(1, 1), 0);
  EXPECT_GT(send(1 << 20, 1), 10 * send(1, 1));
  EXPECT_LT(send(1, 0), send(1, 1));
}

TEST_F(SimulateGroup, WhatHasNoTimeIsAnError) {
  hocketSimInfo_t info = HOCKET_SIM_INFO_INITIALIZER;
  const std::vector<size_t> counts{1, 2};
  const std::vector<size_t> starts{0, 1};
  ASSERT_EQ(hocketGroupStart(), hocketSuccess);
  ASSERT_EQ(
      hocketAllGatherV(send_.data(), 1, recv_.data(), counts.data(), starts.data(), hocketFloat, comms_[0], nullptr),
      hocketSuccess);
  expect_error(hocketGroupSimulateEnd(&info), hocketInvalidUsage, comms_[0], {"all_gather", "knows no time"});
  expect_error(hocketGroupSimulateEnd(&info), hocketInvalidUsage, nullptr, {"without hocketGroupStart"});
  ASSERT_EQ(hocketGroupStart(), hocketSuccess);
  expect_error(hocketGroupSimulateEnd(nullptr), hocketInvalidArgument, nullptr, {"simInfo is NULL"});
  expect_error(hocketGroupEnd(), hocketInvalidUsage, nullptr, {"without hocketGroupStart"});
  ASSERT_EQ(hocketGroupStart(), hocketSuccess);
  info.magic = 0;
  expect_error(hocketGroupSimulateEnd(&info), hocketInvalidArgument, nullptr, {"HOCKET_SIM_INFO_INITIALIZER"});
}

TEST_F(SimulateGroup, OnlyTheOutermostGroupCanBeSimulated) {
  hocketSimInfo_t info = HOCKET_SIM_INFO_INITIALIZER;
  ASSERT_EQ(hocketGroupStart(), hocketSuccess);
  all_reduce(0, 1);
  ASSERT_EQ(hocketGroupStart(), hocketSuccess);
  expect_error(hocketGroupSimulateEnd(&info), hocketInvalidUsage, nullptr, {"within an outer group"});
  expect_error(hocketGroupEnd(), hocketInvalidUsage, nullptr, {"within an outer group"});
  ASSERT_EQ(hocketGroupStart(), hocketSuccess);
  hocketComm_t child = nullptr;
  EXPECT_EQ(hocketCommSplit(comms_[0], 0, 0, &child, nullptr), hocketSuccess);
  expect_error(hocketGroupSimulateEnd(&info), hocketInvalidUsage, nullptr, {"creates communicators"});
}

}  // namespace
}  // namespace hocket::test
