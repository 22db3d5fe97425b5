// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Two hosts with two RDMA ports each (guest.sh -n 2 -p 2): both carry, and one or all of them lose packets or go away
// while a call is under way. The network of the first port carries TCP as well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "guests.h"
#include "tests/api/grid.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr const char* kStop = "/tmp/stop";
constexpr size_t kValues = 32 << 10;  // of fewer, a call takes one lane
constexpr std::chrono::milliseconds kSpan(500);

// Calls until rank 0 finds the file, checks every element, and says how fast it goes.
const Role steady_role("steady", [](const Part&) {
  hocketComm_t comm = nullptr;
  if (hocketCommInitFromEnvironment(&comm, nullptr) != hocketSuccess) {
    std::printf("cannot join: %s\n", hocketGetLastError(nullptr));
    return 3;
  }
  const bool decides = std::atoi(std::getenv("HOCKET_RANK")) == 0;
  std::vector<float> values(kValues);
  auto begin = Clock::now();
  size_t calls = 0;
  for (int round = 0;; ++round) {
    for (size_t i = 1; i < kValues; ++i) values[i] = static_cast<float>((i + static_cast<size_t>(round)) % 1000);
    values[0] = decides && std::filesystem::exists(kStop) ? 1.0F : 0.0F;
    if (hocketAllReduce(values.data(), values.data(), kValues, hocketFloat, hocketSum, comm, nullptr) !=
        hocketSuccess) {
      std::printf("failed: %s\n", hocketGetLastError(comm));
      return 2;
    }
    for (size_t i = 1; i < kValues; ++i) {
      if (values[i] == 2 * static_cast<float>((i + static_cast<size_t>(round)) % 1000)) continue;
      std::printf("wrong element %zu in round %d\n", i, round);
      return 1;
    }
    if (values[0] != 0) return hocketCommDestroy(comm) == hocketSuccess ? 0 : 1;
    if (round == 3) std::printf("running\n");
    ++calls;
    if (Clock::now() - begin < kSpan) continue;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    std::printf("rate %.1f\n", static_cast<double>(calls * kValues * sizeof(float)) / 1e6 / seconds);
    begin = Clock::now();
    calls = 0;
  }
});

// On every host, also where nobody listens.
void shell(const std::string& command) { EXPECT_EQ(std::system(command.c_str()), 0) << command; }

class TwoPorts : public Rdma {
 protected:
  void SetUp() override {
    Rdma::SetUp();
    if (guest_number("GUEST_COUNT", 1) != 2 || guest_number("GUEST_PORTS", 1) != 2) {
      GTEST_SKIP() << "this is not one of two guests with two ports";
    }
    std::filesystem::remove(kStop);
  }
  void TearDown() override {
    if (first_guest()) (void)std::system("tc qdisc del dev eth1 root 2>/dev/null; ip link set eth1 up");
  }
  static bool first_guest() { return guest_number("GUEST_ID", 0) == 0; }
  // One rank on each host.
  static Processes::Settings settings(int port) {
    Processes::Settings ours = rank_settings(2, guest_number("GUEST_ID", 0), "verbs");
    ours.environment.push_back("HOCKET_ADDRESS=10.77.0.1:" + std::to_string(port));
    ours.environment.push_back("HOCKET_LANES=2");
    return ours;
  }
  static void stop() { shell(std::string("touch ") + kStop); }
  // The other guest's part: its rank goes on until it is told to stop.
  static void go_along(Processes& rank) {
    const Processes::End end = rank.finish(kLimit)[0];
    EXPECT_EQ(end.status, 0) << end.output;
  }
};

TEST_F(TwoPorts, BothCarryWhatTheLanesSend) {
  const uint64_t first = packets_sent("rxe0");
  const uint64_t second = packets_sent("rxe1");
  Processes rank("steady", 1, settings(4481));
  ASSERT_TRUE(rank.wait_for(0, "running", kLimit));
  if (first_guest()) stop();
  go_along(rank);
  EXPECT_GT(packets_sent("rxe0") - first, 20u);
  EXPECT_GT(packets_sent("rxe1") - second, 20u);
}

TEST_F(TwoPorts, OneThatGoesDownInMidOperationIsLeftAndUsedAgain) {
  Processes rank("steady", 1, settings(4482));
  ASSERT_TRUE(rank.wait_for(0, "running", kLimit));
  if (first_guest()) {
    ASSERT_TRUE(rank.wait_for(0, "rate", kLimit));
    shell("ip link set eth1 down");
    EXPECT_TRUE(rank.wait_for(0, "rxe1 port 1 carries nothing now", kLimit));
    const uint64_t before = packets_sent("rxe1");
    sleep(2);
    EXPECT_EQ(packets_sent("rxe1"), before);
    shell("ip link set eth1 up");
    EXPECT_TRUE(rank.wait_for(0, "rxe1 port 1 carries again", kLimit));
    stop();
  }
  const Processes::End end = rank.finish(kLimit)[0];
  EXPECT_EQ(end.status, 0) << end.output;
  std::printf("%s\n", end.output.c_str());
}

TEST_F(TwoPorts, APartitionOfOneLeavesTheOther) {
  Processes rank("steady", 1, settings(4483));
  ASSERT_TRUE(rank.wait_for(0, "running", kLimit));
  if (first_guest()) {
    shell("tc qdisc add dev eth1 root netem loss 100%");
    sleep(4);  // until then the devices have given up, on one side or on both
    stop();
  }
  go_along(rank);
}

TEST_F(TwoPorts, OnePercentOfLossIsRepaired) {
  if (first_guest()) shell("tc qdisc add dev eth1 root netem loss 1%");
  Processes rank("steady", 1, settings(4484));
  ASSERT_TRUE(rank.wait_for(0, "rate", kLimit));
  if (first_guest()) stop();
  go_along(rank);
}

TEST_F(TwoPorts, APartitionOfAllIsAnErrorThatNamesThePeer) {
  Processes rank("steady", 1, settings(4485));
  ASSERT_TRUE(rank.wait_for(0, "running", kLimit));
  if (first_guest()) {
    for (const char* device : {"eth0", "eth1"})
      shell(std::string("tc qdisc add dev ") + device + " root netem loss 100%");
  }
  const Processes::End end = rank.finish(kLimit)[0];
  EXPECT_FALSE(end.hung);
  EXPECT_EQ(end.status, 2);
  EXPECT_THAT(end.output, HasSubstr("failed: "));
  EXPECT_THAT(end.output, HasSubstr("rank " + std::to_string(1 - guest_number("GUEST_ID", 0))));
}

// ---- A measure, which perf/rdma.sh takes

using PortLoss = TwoPorts;

// Megabytes per second in each span that the output tells of, from the first line with that text on ("": all).
std::vector<double> rates(const std::string& output, const std::string& since) {
  std::istringstream lines(output.substr(std::min(output.find(since), output.size())));
  std::vector<double> found;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("rate ")) found.push_back(std::stod(line.substr(5)));
  }
  return found;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

TEST_F(PortLoss, LeavesTheSpeedOfTheOtherPort) {
  std::string outputs[2];
  for (const bool loses : {false, true}) {
    shell(loses ? "ip link set eth1 up; sleep 2" : "ip link set eth1 down");
    std::filesystem::remove(kStop);
    Processes rank("steady", 1, settings(loses ? 4487 : 4486));
    ASSERT_TRUE(rank.wait_for(0, "rate", kLimit));
    if (first_guest()) {
      sleep(4);
      if (loses) shell("ip link set eth1 down; sleep 6");
      stop();
    }
    const Processes::End end = rank.finish(kLimit)[0];
    EXPECT_EQ(end.status, 0) << end.output;
    outputs[loses ? 1 : 0] = end.output;
  }
  if (!first_guest()) return;
  // The span in which it was lost, and the rest of the first second, do not count.
  std::vector<double> after = rates(outputs[1], "carries nothing now");
  ASSERT_GT(after.size(), 3u) << outputs[1];
  after.erase(after.begin(), after.begin() + 2);
  const double alone = median(rates(outputs[0], ""));
  std::printf("%sone-port-MB/s %.1f\nafter-a-loss-MB/s %.1f\nafter-a-loss-worst-MB/s %.1f\n", outputs[1].c_str(), alone,
              median(after), *std::min_element(after.begin(), after.end()));
}

}  // namespace
}  // namespace hocket::test
