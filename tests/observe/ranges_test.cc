// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Calls are ranges for a tool that NVTX loads: NVTX_INJECTION64_PATH names nvtx_tool.cc's library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "hocket/hocket.h"

namespace {

std::vector<std::string> log_lines() {
  std::ifstream log(std::getenv("NVTX_TOOL_LOG"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  return lines;
}

TEST(Ranges, CallsAreSeenByAToolOfNvtx) {
  constexpr int kRanks = 2;
  constexpr int kCalls = 3;
  std::vector<hocketComm_t> comms(kRanks);
  ASSERT_EQ(hocketCommInitAll(comms.data(), kRanks, nullptr), hocketSuccess);
  hocketCodec_t codec = nullptr;
  ASSERT_EQ(hocketCodecCreate(&codec, "int8"), hocketSuccess);
  std::vector<std::thread> threads;
  for (const hocketComm_t comm : comms) {
    threads.emplace_back([comm, codec] {
      std::vector<float> values(1000, 1);
      for (int i = 0; i < kCalls; ++i) {
        EXPECT_EQ(hocketAllReduce(values.data(), values.data(), values.size(), hocketFloat, hocketSum, comm, nullptr),
                  hocketSuccess);
      }
      EXPECT_EQ(hocketAllReduceCompressed(values.data(), values.data(), 900, hocketFloat, hocketSum, codec, nullptr,
                                          comm, nullptr),
                hocketSuccess);
      uint64_t index = 7;
      const hocketSparse_t sparse{sizeof sparse, hocketSparseCoo, 1, values.size(), 1, nullptr, &index, values.data()};
      std::vector<float> sum(values.size());
      EXPECT_EQ(hocketAllReduceSparseToDense(&sparse, sum.data(), hocketFloat, hocketSum, comm), hocketSuccess);
      EXPECT_EQ(hocketBarrier(comm, nullptr), hocketSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const hocketComm_t comm : comms) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
  EXPECT_EQ(hocketCodecDestroy(codec), hocketSuccess);
  const std::vector<std::string> lines = log_lines();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "hocket: all_reduce 1000"), kRanks * kCalls);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "hocket: all_reduce 900"), kRanks);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "hocket: barrier 0"), kRanks);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "hocket: all_reduce_sparse_to_dense 1"), kRanks);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "end"), kRanks * (kCalls + 3));
}

}  // namespace
