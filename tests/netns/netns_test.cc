// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Four network namespaces on one bridge, as four hosts that share nothing but the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/api/grid.h"

namespace hocket::test {
namespace {

constexpr int kHosts = 4;
constexpr size_t kCases = 150;
constexpr uint64_t kSeed = 77;

// Every rank walks through the same cases, joined by what the environment says.
const Role host_role("host", [](const Part& part) {
  Member member{part.rank, part.ranks, nullptr};
  hocketConfig_t config = config_with_timeout(60000);
  if (hocketCommInitFromEnvironment(&member.comm, &config) != hocketSuccess) {
    std::printf("cannot join: %s\n", hocketGetLastError(nullptr));
    return 3;
  }
  const Cell cell{"tcp", 0};
  const Tally tally = run_cases_on(member, cell, sample_cases(cell, part.ranks, kCases, kSeed), kSeed);
  for (const std::string& fault : tally.faults) std::printf("FAULT %s\n", fault.c_str());
  std::printf("%zu calls\n", tally.calls);
  return tally.faults.empty() && tally.calls == kCases && hocketCommDestroy(member.comm) == hocketSuccess ? 0 : 1;
});

// Calls until one fails, and says with what.
const Role caller_role("caller", [](const Part& part) {
  Member member{part.rank, part.ranks, nullptr};
  if (hocketCommInitFromEnvironment(&member.comm, nullptr) != hocketSuccess) return 3;
  std::vector<float> values(100000, 1.0F);
  for (int round = 0;; ++round) {
    const hocketResult_t result =
        hocketAllReduce(values.data(), values.data(), values.size(), hocketFloat, hocketMax, member.comm, nullptr);
    if (result != hocketSuccess) {
      std::printf("failed %d: %s\n", result, hocketGetLastError(member.comm));
      return 0;
    }
    if (round == 20) std::printf("running\n");
  }
});

class Hosts : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
    if (std::system("command -v ip >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no `ip` (package iproute2)";
    if (!script("up")) GTEST_SKIP() << "this machine makes no network namespaces";
    is_up_ = true;
  }
  void TearDown() override {
    if (is_up_) {
      EXPECT_TRUE(script("down"));
    }
  }

  // Of the hosts' ranks, one on each.
  Processes::Settings settings(const std::string& address) const {
    Processes::Settings settings;
    settings.environment = {"HOCKET_RANK={}",
                            "HOCKET_SIZE=" + std::to_string(kHosts),
                            "HOCKET_ADDRESS=" + address,
                            "HOCKET_HOST_ID=host-{}",
                            "HOCKET_SECRET=netns",
                            "HOCKET_TIMEOUT=3s"};
    settings.launcher = {"ip", "netns", "exec", prefix() + "{}"};
    settings.unique_id = false;
    return settings;
  }

  static std::string prefix() { return "hk" + std::to_string(getpid() % 100000) + "n"; }

 private:
  static bool script(const std::string& task) {
    return std::system((HOSTS_SCRIPT " " + task + " " + prefix() + " " + std::to_string(kHosts) + " >/dev/null 2>&1")
                           .c_str()) == 0;
  }

  bool is_up_ = false;
};

TEST_F(Hosts, AllCollectivesOverIpv4) { expect_success("host", kHosts, settings("10.77.0.1:4477"), Seconds(100)); }

TEST_F(Hosts, AllCollectivesOverIpv6) { expect_success("host", kHosts, settings("[fd77::1]:4477"), Seconds(100)); }

// Its packets vanish without a word: nobody closes a connection.
TEST_F(Hosts, AHostThatIsCutOffIsNamed) {
  Processes processes("caller", kHosts, settings("10.77.0.1:4477"));
  for (int rank = 0; rank < kHosts; ++rank)
    ASSERT_TRUE(processes.wait_for(rank, "running", Seconds(60))) << "rank " << rank;
  ASSERT_EQ(std::system(("ip -n " + prefix() + "2 link set eth0 down").c_str()), 0);
  const std::vector<Processes::End> ends = processes.finish(Seconds(60));
  for (int rank = 0; rank < kHosts; ++rank) {
    const Processes::End& end = ends[static_cast<size_t>(rank)];
    EXPECT_FALSE(end.hung) << "rank " << rank << " wrote: " << end.output;
    EXPECT_EQ(end.status, 0) << "rank " << rank << " wrote: " << end.output;
    EXPECT_THAT(end.output, testing::HasSubstr("failed " + std::to_string(hocketRemoteError)));
    // Cut off itself, rank 2 may miss any of the others first.
    if (rank == 2) continue;
    EXPECT_THAT(end.output, testing::HasSubstr("rank 2"));
  }
}

}  // namespace
}  // namespace hocket::test
