// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Online tuning (HOCKET_EXPLORE): calls stay right and equal on all ranks however they are made, what was found gets
// into the tuning file, and ordered reductions are left alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "choose/tuning.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

constexpr size_t kCount = 1024;
constexpr int kMostAttempts = 10;

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool found_in_file() {
  return text_of(std::getenv("HOCKET_TUNING_FILE")).find("\nbest all_reduce") != std::string::npos;
}

// Rank 1 groups its calls, which blocks it no less.
bool add_up(hocketComm_t comm, int rank, const std::vector<float>& own, std::vector<float>& sum) {
  if (rank == 1) hocketGroupStart();
  const hocketResult_t made =
      hocketAllReduce(own.data(), sum.data(), own.size(), hocketFloat32, hocketSum, comm, nullptr);
  return (rank == 1 ? hocketGroupEnd() : made) == hocketSuccess;
}

// A communicator's calls until something is found: how many that takes depends on what else the machine does.
const Role explorer_role("explorer", [](const Part& part) {
  const Member member = part.join();
  const std::vector<float> own(kCount, static_cast<float>(part.rank + 1));
  const auto expected = static_cast<float>(part.ranks * (part.ranks + 1) / 2);
  int32_t found = 0;
  for (int attempt = 1; found == 0 && attempt <= kMostAttempts; ++attempt) {
    hocketUniqueId id{};
    hocketComm_t comm = nullptr;
    if (part.rank == 0 && hocketGetUniqueId(&id) != hocketSuccess) return 1;
    if (hocketBcast(&id, sizeof id, hocketUint8, 0, member.comm, nullptr) != hocketSuccess) return 1;
    if (hocketCommInitRank(&comm, part.ranks, id, part.rank) != hocketSuccess) return 1;
    for (int call = 0; call < 2000 * attempt; ++call) {
      std::vector<float> sum(kCount, 0);
      if (!add_up(comm, part.rank, own, sum)) {
        std::printf("%s\n", hocketGetLastError(comm));
        return 1;
      }
      if (std::ranges::any_of(sum, [&](float value) { return value != expected; })) return 1;
    }
    hocketCommDestroy(comm);
    found = part.rank == 0 && found_in_file() ? 1 : 0;
    if (hocketBcast(&found, 1, hocketInt32, 0, member.comm, nullptr) != hocketSuccess) return 1;
  }
  hocketCommDestroy(member.comm);
  return found == 1 ? 0 : 1;
});

// Sums whose bits depend on the order of adding.
const Role repeater_role("repeater", [](const Part& part) {
  const Member member = part.join();
  std::vector<float> own(kCount);
  for (size_t i = 0; i < kCount; ++i) own[i] = 1.0F / static_cast<float>(3 + part.rank * 7 + static_cast<int>(i));
  std::vector<float> first(kCount);
  bool right = add_up(member.comm, part.rank, own, first);
  for (int call = 0; call < 1000 && right; ++call) {
    std::vector<float> sum(kCount);
    right = add_up(member.comm, part.rank, own, sum) && sum == first;
  }
  hocketCommDestroy(member.comm);
  return right ? 0 : 1;
});

class Explore : public testing::Test {
 protected:
  void SetUp() override {
    Tuning tuning = built_in_tuning();
    tuning.machine = fingerprint(machine());
    tuning.cores = machine().usable_cpus();
    before_ = to_text(tuning);
    std::ofstream(path_) << before_;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Processes::Settings with(const std::string& setting) const {
    return {{"HOCKET_TUNING_FILE=" + path_.string(), "HOCKET_EXPLORE=50", setting}, {}, {}, true};
  }

  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("hocket_explore_" + std::to_string(getpid()));
  std::string before_;
};

TEST_F(Explore, WhatIsFoundIsKept) {
  expect_success("explorer", 3, with("HOCKET_LOG=warn"), Seconds(240));
  const Result<Tuning> after = parse_tuning(text_of(path_));
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_TRUE(std::ranges::any_of(after->best, [](const MeasuredChoice& choice) {
    return choice.collective == Collective::kAllReduce && choice.ranks == 3 && choice.medium == Medium::kMemory &&
           choice.bytes == kCount * sizeof(float);
  }));
  EXPECT_EQ(after->memory, built_in_tuning().memory);
}

TEST_F(Explore, OrderedReductionsAreLeftAlone) {
  expect_success("repeater", 3, with("HOCKET_REPRODUCIBILITY=ordered"), Seconds(240));
  EXPECT_EQ(text_of(path_), before_);
}

TEST_F(Explore, AForcedAlgorithmIsLeftAlone) {
  expect_success("repeater", 3, with("HOCKET_ALGORITHM=all_reduce=ring"), Seconds(240));
  EXPECT_EQ(text_of(path_), before_);
}

}  // namespace
}  // namespace hocket::test
