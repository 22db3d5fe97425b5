// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Four network namespaces on one bridge, as four hosts that share nothing but the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/grid.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;

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

// Bytes that have left this host.
double bytes_sent() {
  double bytes = 0;
  std::ifstream("/sys/class/net/eth0/statistics/tx_bytes") >> bytes;
  return bytes;
}

// Sums of numbers that add up exactly, compared element by element; says how often the buffer has left the host.
const Role pair_role("pair", [](const Part& part) {
  Member member{part.rank, part.ranks, nullptr};
  if (hocketCommInitFromEnvironment(&member.comm, nullptr) != hocketSuccess) return 3;
  size_t wrong = 0;
  for (const size_t count : {size_t{1}, size_t{7}, size_t{1000}, size_t{1} << 20}) {
    std::vector<int32_t> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i % 1000) + part.rank;
    hocketBarrier(member.comm, nullptr);
    const double before = bytes_sent();
    if (hocketAllReduce(values.data(), values.data(), count, hocketInt32, hocketSum, member.comm, nullptr) !=
        hocketSuccess) {
      std::printf("failed: %s\n", hocketGetLastError(member.comm));
      return 1;
    }
    hocketBarrier(member.comm, nullptr);
    const auto ranks = static_cast<int32_t>(part.ranks);
    const double bytes = static_cast<double>(count * sizeof(int32_t));
    std::printf("%zu elements: %.2f of the buffer has left\n", count, (bytes_sent() - before) / bytes);
    for (size_t i = 0; i < count; ++i)
      wrong += values[i] != static_cast<int32_t>(i % 1000) * ranks + ranks * (ranks - 1) / 2 ? 1 : 0;
  }
  std::printf("%zu are wrong\n", wrong);
  return wrong == 0 && hocketCommDestroy(member.comm) == hocketSuccess ? 0 : 1;
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

// What a command of the shell prints.
std::string output_of(const std::string& command) {
  std::string output;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe.get())) != EOF;) output += static_cast<char>(c);
  return output;
}

// Sums that add up exactly, for so many seconds after it has said that it runs.
const Role summer_role("summer", [](const Part& part) {
  Member member{part.rank, part.ranks, nullptr};
  if (hocketCommInitFromEnvironment(&member.comm, nullptr) != hocketSuccess) return 3;
  std::vector<int32_t> values(300'000);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(12);
  int32_t goes_on = 1;
  for (int round = 0; goes_on != 0; ++round) {
    const size_t count = 1 + static_cast<size_t>(round) * 7919 % values.size();
    std::fill_n(values.begin(), count, round + part.rank);
    hocketResult_t result =
        hocketAllReduce(values.data(), values.data(), count, hocketInt32, hocketSum, member.comm, nullptr);
    goes_on = part.rank == 0 && std::chrono::steady_clock::now() < end ? 1 : 0;
    if (result == hocketSuccess) result = hocketBroadcast(&goes_on, &goes_on, 1, hocketInt32, 0, member.comm, nullptr);
    if (result != hocketSuccess) {
      std::printf("failed %d: %s\n", result, hocketGetLastError(member.comm));
      return 1;
    }
    const auto ranks = static_cast<int32_t>(part.ranks);
    const int32_t sum = ranks * round + ranks * (ranks - 1) / 2;
    if (!std::all_of(values.begin(), values.begin() + static_cast<ptrdiff_t>(count),
                     [&](int32_t each) { return each == sum; }))
      return std::printf("a wrong sum\n"), 1;
    if (round == 20) std::printf("running\n"), std::fflush(stdout);
  }
  std::printf("all right\n");
  return hocketCommDestroy(member.comm) == hocketSuccess ? 0 : 1;
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

  // Two ranks on each host.
  Processes::Settings pairs(const std::string& address) const {
    Processes::Settings result = settings(address);
    result.environment[1] = "HOCKET_SIZE=" + std::to_string(2 * kHosts);
    result.launcher = {
        "sh", "-c",
        "host=$(({} / 2)); export HOCKET_HOST_ID=host-$host; exec ip netns exec " + prefix() + "$host \"$@\"", "sh"};
    return result;
  }

  // Where rank 0 may be found by either.
  Processes::Settings by_two_interfaces() const {
    Processes::Settings both = settings("10.77.0.1,10.78.0.1:4477");
    both.environment.emplace_back("HOCKET_INTERFACE=eth0,eth1");
    return both;
  }

  // What joins all hosts' eth0 ("br") or eth1 ("bs"): what is sent while it is off vanishes.
  static bool set_switch(const std::string& which, bool on) {
    return std::system(("ip link set " + prefix() + which + (on ? " up" : " down")).c_str()) == 0;
  }

  using Loss = std::pair<int, std::string>;  // of a host's interface

  // How ranks end that sum while these are lost.
  std::vector<Processes::End> sum_while_losing(const std::vector<Loss>& losses) const {
    return sum_while_losing(losses, by_two_interfaces());
  }
  static std::vector<Processes::End> sum_while_losing(const std::vector<Loss>& losses,
                                                      const Processes::Settings& settings) {
    Processes processes("summer", kHosts, settings);
    for (int rank = 0; rank < kHosts; ++rank)
      EXPECT_TRUE(processes.wait_for(rank, "running", Seconds(60))) << "rank " << rank;
    for (const auto& [host, interface] : losses) EXPECT_TRUE(lose(host, interface));
    return processes.finish(Seconds(100));
  }

  void expect_sums_go_on(const std::vector<Loss>& losses, const std::string& lost_way) const {
    for (const Processes::End& end : sum_while_losing(losses)) {
      EXPECT_FALSE(end.hung) << end.output;
      EXPECT_EQ(end.status, 0) << end.output;
      EXPECT_THAT(end.output, testing::HasSubstr("all right"));
      EXPECT_THAT(end.output, testing::HasSubstr("nothing comes over " + lost_way));
      EXPECT_THAT(end.output, testing::HasSubstr("1 of 2 interfaces is lost"));
    }
  }

  static void expect_failure(const Processes::End& end, const std::string& culprit) {
    EXPECT_FALSE(end.hung) << end.output;
    EXPECT_THAT(end.output, testing::HasSubstr("failed " + std::to_string(hocketRemoteError) + ": " + culprit));
  }

  static bool lose(int host, const std::string& interface) {
    return std::system(("ip -n " + prefix() + std::to_string(host) + " link set " + interface + " down").c_str()) == 0;
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

// Of four hosts each sends 2 * 3/4 of the buffer, if the ranks of a host first reduce among each other; a ring of all
// ranks sends 2 * 7/8, plans that know nothing of hosts up to twice as much again.
TEST_F(Hosts, SeveralRanksOnEachGoToTheWireTogether) {
  Processes processes("pair", 2 * kHosts, pairs("10.77.0.1:4477"));
  for (const Processes::End& end : processes.finish(Seconds(100))) {
    EXPECT_EQ(end.status, 0) << end.output;
    const size_t line = end.output.find("1048576 elements: ");
    ASSERT_NE(line, std::string::npos) << end.output;
    EXPECT_LT(std::stod(end.output.substr(line + 18)), 1.68) << end.output;
  }
}

// In the middle of sums, and nobody closes a connection.
TEST_F(Hosts, AnotherInterfaceCarriesOnWhenOneIsLost) { expect_sums_go_on({{2, "eth0"}}, "eth0 (10.77.0."); }

TEST_F(Hosts, AnotherInterfaceCarriesOnWhenTwoHostsLoseOne) {
  expect_sums_go_on({{1, "eth0"}, {2, "eth0"}}, "eth0 (10.77.0.");
}

TEST_F(Hosts, AHostThatLosesAllItsInterfacesIsNamed) {
  const std::vector<Processes::End> ends = sum_while_losing({{2, "eth0"}, {2, "eth1"}});
  for (const int rank : {0, 1, 3}) expect_failure(ends[static_cast<size_t>(rank)], "rank 2 ");
}

// UCX has connections of its own, which say nothing for a quarter of an hour.
TEST_F(Hosts, UcxThatLosesOneOfTwoInterfacesEndsNamingTheHost) {
  if (!HOCKET_HAS_UCX) GTEST_SKIP() << "this build has no UCX";
  if (std::filesystem::exists("/sys/class/infiniband")) GTEST_SKIP() << "UCX may go over RDMA here";
  Processes::Settings settings = by_two_interfaces();
  settings.environment.emplace_back("HOCKET_TRANSPORTS=ucx");
  for (const Processes::End& end : sum_while_losing({{2, "eth0"}}, settings)) {
    EXPECT_FALSE(end.hung) << end.output;
    EXPECT_THAT(end.output, testing::ContainsRegex("failed 6: rank (2 and rank .|. and rank 2) .*hear nothing of each "
                                                   "other over eth. .*ucx cannot go over another interface"));
  }
}

// Hocket knows one interface, UCX takes the other: the links live.
TEST_F(Hosts, UcxThatLosesAnInterfaceOfItsOwnEndsNamingBothRanks) {
  if (!HOCKET_HAS_UCX) GTEST_SKIP() << "this build has no UCX";
  Processes::Settings settings = this->settings("10.77.0.1:4477");
  for (const char* variable : {"HOCKET_INTERFACE=eth0", "HOCKET_TRANSPORTS=ucx", "UCX_NET_DEVICES=eth1", "UCX_TLS=tcp"})
    settings.environment.emplace_back(variable);
  const std::vector<Processes::End> ends = sum_while_losing({{2, "eth1"}}, settings);
  for (const Processes::End& end : ends) {
    EXPECT_FALSE(end.hung) << end.output;
    EXPECT_THAT(end.output, testing::ContainsRegex("failed 6: .*#[0-9]+: message [0-9]+ of rank .* to rank .* does not "
                                                   "come .ucx lane [0-9]+, nothing for 6 s, while both live"));
    EXPECT_THAT(end.output, HasSubstr("rank 2 "));
  }
}

// Its link may move meanwhile; nothing is lost.
TEST_F(Hosts, UcxOutlivesAPauseOfLessThanTheTimeout) {
  if (!HOCKET_HAS_UCX) GTEST_SKIP() << "this build has no UCX";
  Processes::Settings settings = by_two_interfaces();
  settings.environment.emplace_back("HOCKET_TRANSPORTS=ucx");
  Processes processes("summer", kHosts, settings);
  for (int rank = 0; rank < kHosts; ++rank) EXPECT_TRUE(processes.wait_for(rank, "running", Seconds(60)));
  processes.send_signal(1, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  processes.send_signal(1, SIGCONT);
  for (const Processes::End& end : processes.finish(Seconds(100))) {
    EXPECT_FALSE(end.hung) << end.output;
    EXPECT_EQ(end.status, 0) << end.output;
  }
}

// Host 1 is on the one network now, host 2 on the other, hosts 0 and 3 on both: which of the two goes, all agree on.
TEST_F(Hosts, OneOfTwoHostsThatAreLeftWithoutACommonNetworkIsNamed) {
  const std::vector<Processes::End> ends = sum_while_losing({{1, "eth1"}, {2, "eth0"}});
  const bool first_goes =
      ends[0].output.find("failed " + std::to_string(hocketRemoteError) + ": rank 1 ") != std::string::npos;
  for (const Processes::End& end : ends) expect_failure(end, first_goes ? "rank 1 " : "rank 2 ");
}

// The ranks find rank 0, each other and then all pipes by the interface that is left.
TEST_F(Hosts, AnInterfaceMayBeLostBeforeAllBegins) {
  ASSERT_TRUE(set_switch("br", false));
  for (const Processes::End& end : Processes("pair", kHosts, by_two_interfaces()).finish(Seconds(100))) {
    EXPECT_EQ(end.status, 0) << end.output;
    EXPECT_THAT(end.output, testing::HasSubstr("0 are wrong"));
  }
}

// When three of four ranks wait at the root, whose reply will go by the other interface.
TEST_F(Hosts, AnInterfaceMayBeLostWhileRanksJoin) {
  ASSERT_TRUE(set_switch("bs", false));
  const std::string last_may_come = testing::TempDir() + prefix() + "come";
  Processes::Settings settings = by_two_interfaces();
  settings.launcher = {"sh", "-c",
                       "rank={}; while [ $rank = 3 ] && [ ! -e " + last_may_come +
                           " ]; do sleep 0.05; done; exec ip netns exec " + prefix() + "$rank \"$@\"",
                       "sh"};
  Processes processes("pair", kHosts, settings);
  // Connections that are established (01) at 10.77.0.1:4477.
  const std::string guests = "ip netns exec " + prefix() + "0 grep -c '01004D0A:117D [^ ]* 01 ' /proc/net/tcp";
  for (int looks = 0; output_of(guests) != "2\n"; ++looks) {
    ASSERT_LT(looks, 1000) << "ranks 1 and 2 do not come: " << processes.finish(Seconds(1))[1].output;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_TRUE(set_switch("bs", true) && set_switch("br", false));
  std::ofstream{last_may_come};
  const std::vector<Processes::End> ends = processes.finish(Seconds(100));
  std::filesystem::remove(last_may_come);
  for (const Processes::End& end : ends) {
    EXPECT_EQ(end.status, 0) << end.output;
    EXPECT_THAT(end.output, testing::HasSubstr("0 are wrong"));
  }
  for (const int guest : {1, 2}) {
    EXPECT_THAT(ends[static_cast<size_t>(guest)].output,
                testing::HasSubstr("lost the root of the communicator at 10.77.0.1:4477"));
  }
}

// It waits, as for a rank 0 that is late, and says what the kernel says.
TEST_F(Hosts, ARankThatCannotReachTheFirstOneSaysWhyMeanwhile) {
  ASSERT_TRUE(lose(1, "eth0"));
  Processes processes("pair", kHosts, settings("10.77.0.1:4477"));
  EXPECT_TRUE(processes.wait_for(1,
                                 "has been looking for rank 0 at 10.77.0.1:4477 for 5 s: cannot connect to "
                                 "10.77.0.1:4477: network is unreachable",
                                 Seconds(60)));
  ASSERT_EQ(std::system(("ip -n " + prefix() + "1 link set eth0 up").c_str()), 0);
  for (const Processes::End& end : processes.finish(Seconds(100))) {
    EXPECT_EQ(end.status, 0) << end.output;
    EXPECT_THAT(end.output, HasSubstr("0 are wrong"));
  }
}

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
