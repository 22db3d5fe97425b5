// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Collectives over real queue pairs, by verbs and by UCX: ranks on one host with an RDMA device, and on the hosts that
// guest.sh starts. UCX also over what every host has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "guests.h"
#include "tests/api/grid.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;

constexpr size_t kCases = 60;
constexpr uint64_t kSeed = 91;
// Every rank walks through the same cases, joined by what the environment says.
const Role member_role("member", [](const Part&) {
  Member member{std::atoi(std::getenv("HOCKET_RANK")), std::atoi(std::getenv("HOCKET_SIZE")), nullptr};
  hocketConfig_t config = config_with_timeout(60000);
  if (hocketCommInitFromEnvironment(&member.comm, &config) != hocketSuccess) {
    std::printf("cannot join: %s\n", hocketGetLastError(nullptr));
    return 3;
  }
  const Cell cell{"verbs", 0};
  const Tally tally = run_cases_on(member, cell, sample_cases(cell, member.ranks, kCases, kSeed), kSeed);
  for (const std::string& fault : tally.faults) std::printf("FAULT %s\n", fault.c_str());
  std::printf("%zu calls\n", tally.calls);
  return tally.faults.empty() && tally.calls == kCases && hocketCommDestroy(member.comm) == hocketSuccess ? 0 : 1;
});

// Calls until one fails, and says with what.
const Role caller_role("caller", [](const Part&) {
  hocketComm_t comm = nullptr;
  if (hocketCommInitFromEnvironment(&comm, nullptr) != hocketSuccess) {
    std::printf("cannot join: %s\n", hocketGetLastError(nullptr));
    return 3;
  }
  std::vector<float> values(10000, 1.0F);
  for (int round = 0;; ++round) {
    const hocketResult_t result =
        hocketAllReduce(values.data(), values.data(), values.size(), hocketFloat, hocketMax, comm, nullptr);
    if (result != hocketSuccess) {
      std::printf("failed %d: %s\n", result, hocketGetLastError(comm));
      return hocketCommAbort(comm) == hocketSuccess ? 0 : 1;
    }
    if (round == 20) std::printf("running\n");
  }
});

constexpr size_t kWindow = (6 << 20) + 4096;  // no ring is so long
constexpr size_t kGathered = 3 << 20;         // bytes of each of two ranks
const char* const kSeen = "/tmp/window-seen";

// One round of calls in registered memory; 0: all is as it should be.
using UseOfWindow = int (*)(hocketComm_t comm, unsigned char* window, int rank, int round);

// Registers memory, uses it eight times, and waits until the test has had a look.
int in_a_window(UseOfWindow use) {
  const int rank = std::atoi(std::getenv("HOCKET_RANK"));
  hocketComm_t comm = nullptr;
  void* memory = nullptr;
  void* handle = nullptr;
  if (hocketCommInitFromEnvironment(&comm, nullptr) != hocketSuccess ||
      hocketMemAlloc(&memory, kWindow) != hocketSuccess ||
      hocketCommRegister(comm, memory, kWindow, &handle) != hocketSuccess) {
    std::printf("cannot begin: %s\n", hocketGetLastError(comm));
    return 3;
  }
  for (int round = 0; round < 8; ++round) {
    const int status = use(comm, static_cast<unsigned char*>(memory), rank, round);
    if (status == 2) std::printf("failed: %s\n", hocketGetLastError(comm));
    if (status != 0) return status;
  }
  std::printf("done\n");
  while (!std::filesystem::exists(kSeen)) usleep(10'000);
  const bool ended = hocketCommDeregister(comm, handle) == hocketSuccess && hocketMemFree(memory) == hocketSuccess;
  return ended && hocketCommDestroy(comm) == hocketSuccess ? 0 : 1;
}

int gather(hocketComm_t comm, unsigned char* window, int rank, int round) {
  const auto value = [round](int owner, size_t i) {
    return static_cast<unsigned char>(i % 251 + static_cast<size_t>(100 * owner + round));
  };
  unsigned char* mine = window + static_cast<size_t>(rank) * kGathered;
  for (size_t i = 0; i < kGathered; ++i) mine[i] = value(rank, i);
  if (hocketAllGather(mine, window, kGathered, hocketUint8, comm, nullptr) != hocketSuccess) return 2;
  for (size_t i = 0; i < 2 * kGathered; ++i) {
    if (window[i] == value(i < kGathered ? 0 : 1, i % kGathered)) continue;
    std::printf("wrong byte %zu in round %d\n", i, round);
    return 1;
  }
  return 0;
}

int sum(hocketComm_t comm, unsigned char* window, int rank, int round) {
  auto* values = reinterpret_cast<float*>(window);
  constexpr size_t kValues = kGathered / sizeof(float);
  const auto value = [round](size_t i) { return static_cast<float>((i + static_cast<size_t>(round)) % 1000); };
  for (size_t i = 0; i < kValues; ++i) values[i] = value(i) + static_cast<float>(rank);
  if (hocketAllReduce(values, values, kValues, hocketFloat, hocketSum, comm, nullptr) != hocketSuccess) return 2;
  for (size_t i = 0; i < kValues; ++i) {
    if (values[i] == 2 * value(i) + 1) continue;
    std::printf("wrong value %zu in round %d\n", i, round);
    return 1;
  }
  return 0;
}

const Role gathering_role("gathering", [](const Part&) { return in_a_window(gather); });
const Role summing_role("summing", [](const Part&) { return in_a_window(sum); });

// Of this process' connections those that send without a copy, which are pipes' and no links'.
std::vector<int> sockets_without_copies() {
  std::vector<int> found;
  for (int socket = 0; socket < 256; ++socket) {
    int on = 0;
    socklen_t length = sizeof on;
    if (::getsockopt(socket, SOL_SOCKET, SO_ZEROCOPY, &on, &length) == 0 && on != 0) found.push_back(socket);
  }
  return found;
}

// Sums from memory of its own; in the middle rank 0 cuts what the sums go over, again and again.
const Role plain_role("plain", [](const Part&) {
  constexpr int kRounds = 12;
  const int rank = std::atoi(std::getenv("HOCKET_RANK"));
  hocketComm_t comm = nullptr;
  std::vector<unsigned char> memory(kGathered);
  if (hocketCommInitFromEnvironment(&comm, nullptr) != hocketSuccess) return 3;
  std::atomic<int> round = 0;
  std::thread saboteur([&] {
    size_t cuts = 0;
    for (; round < kRounds - 4; usleep(100'000)) {
      if (rank != 0 || round < 4) continue;
      const std::vector<int> victims = sockets_without_copies();
      for (const int victim : victims) ::shutdown(victim, SHUT_RDWR);
      cuts += victims.size();
    }
    if (cuts > 0) std::printf("some were cut\n");
  });
  int status = 0;
  for (; status == 0 && round < kRounds; ++round) status = sum(comm, memory.data(), rank, round);
  round = kRounds;
  saboteur.join();
  if (status != 0) std::printf("%s\n", hocketGetLastError(comm));
  std::printf("%zu without copies\n", sockets_without_copies().size());
  return status == 0 && hocketCommDestroy(comm) == hocketSuccess ? 0 : 1;
});

#ifdef HOCKET_WITH_UCX

// ---- Any host, by what UCX may use

class UcxAnywhere : public testing::TestWithParam<const char*> {};

TEST_P(UcxAnywhere, EveryElementIsRight) {
  Processes::Settings all = rank_settings(3, 0, "ucx");
  all.environment.push_back("HOCKET_ADDRESS=127.0.0.1:" + std::to_string(free_port()));
  all.environment.push_back(std::string("UCX_TLS=") + GetParam());
  expect_success("member", 3, all, kLimit);
}

INSTANTIATE_TEST_SUITE_P(Tls, UcxAnywhere, testing::Values("tcp", "sm"));

#endif

// ---- One host, whose ranks talk through its device

class OneHost : public Rdma, public testing::WithParamInterface<int> {};

TEST_P(OneHost, EveryElementIsRight) {
  const int ranks = GetParam();
  const uint64_t before = packets_sent();
  Processes::Settings all = rank_settings(ranks, 0, "verbs");
  all.environment.push_back("HOCKET_ADDRESS=127.0.0.1:" + std::to_string(free_port()));
  expect_success("member", ranks, all, kLimit);
  EXPECT_GT(packets_sent() - before, kCases) << "it went some other way";
}

INSTANTIATE_TEST_SUITE_P(Ranks, OneHost, testing::Values(2, 3, 4));

#ifdef HOCKET_PROGRAM

using OneHostExplains = Rdma;

TEST_F(OneHostExplains, ByWhichAddressItsPortIsReachedAndWhy) {
  ASSERT_EQ(std::system(HOCKET_PROGRAM " explain >/tmp/explanation"), 0);
  std::ostringstream explanation;
  explanation << std::ifstream("/tmp/explanation").rdbuf();
  EXPECT_THAT(explanation.str(), HasSubstr("reached at 10.77.0.1: RoCE v2, an IPv4 address"));
}

#endif

using OneHostLends = Rdma;

void expect_windows_of_the_device(const std::string& role) {
  std::filesystem::remove(kSeen);
  Processes::Settings all = rank_settings(2, 0, "verbs");
  all.environment.push_back("HOCKET_ADDRESS=127.0.0.1:" + std::to_string(free_port()));
  Processes processes(role, 2, all);
  for (int rank = 0; rank < 2; ++rank) EXPECT_TRUE(processes.wait_for(rank, "done", kLimit)) << "rank " << rank;
  EXPECT_EQ(std::system((std::string("rdma resource show mr >/tmp/window-regions; touch ") + kSeen).c_str()), 0);
  std::ifstream regions("/tmp/window-regions");
  int registered = 0;
  for (std::string line; std::getline(regions, line);) {
    registered += line.find("mrlen " + std::to_string(kWindow) + " ") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(registered, 4) << "the whole window, to be read and to be written, by each of two ranks";
  for (const Processes::End& end : processes.finish(kLimit)) EXPECT_EQ(end.status, 0) << end.output;
}

TEST_F(OneHostLends, RegisteredMemoryIsReadWhereItLies) { expect_windows_of_the_device("gathering"); }

TEST_F(OneHostLends, SumsAreReadWhereTheyLie) { expect_windows_of_the_device("summing"); }

#ifdef HOCKET_WITH_UCX

using OneHostByUcx = Rdma;

TEST_F(OneHostByUcx, EveryElementIsRight) {
  const uint64_t before = packets_sent();
  Processes::Settings all = rank_settings(2, 0, "ucx");
  all.environment.push_back("HOCKET_ADDRESS=127.0.0.1:" + std::to_string(free_port()));
  all.environment.push_back("UCX_TLS=rc");
  expect_success("member", 2, all, kLimit);
  EXPECT_GT(packets_sent() - before, kCases) << "it went some other way";
}

#endif

using OneHostFails = Rdma;

// Of three ranks the second one; the others say so, and end in order.
void expect_that_a_kill_is_named(Processes::Settings all) {
  all.environment.push_back("HOCKET_ADDRESS=127.0.0.1:" + std::to_string(free_port()));
  Processes processes("caller", 3, all);
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(processes.wait_for(rank, "running", kLimit)) << "rank " << rank;
  processes.send_signal(1, SIGKILL);
  const std::vector<Processes::End> ends = processes.finish(kLimit);
  for (const size_t survivor : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(ends[survivor].status, 0) << ends[survivor].output;
    EXPECT_THAT(ends[survivor].output, HasSubstr("failed " + std::to_string(hocketRemoteError)));
    EXPECT_THAT(ends[survivor].output, HasSubstr("rank 1"));
  }
}

TEST_F(OneHostFails, WhenAPeerIsKilledAndSaysWhich) { expect_that_a_kill_is_named(rank_settings(3, 0, "verbs")); }

#ifdef HOCKET_WITH_UCX

TEST_F(OneHostFails, WhenAPeerIsKilledOverUcxToo) {
  Processes::Settings all = rank_settings(3, 0, "ucx");
  all.environment.push_back("UCX_TLS=rc");
  expect_that_a_kill_is_named(all);
}

#endif

TEST_F(OneHostFails, WhenMemoryCannotBeRegisteredAndSaysSo) {
  Processes::Settings all = rank_settings(2, 0, "verbs");
  all.environment.push_back("HOCKET_ADDRESS=127.0.0.1:" + std::to_string(free_port()));
  all.launcher[2] = "export HOCKET_RANK={}; ulimit -l 64; exec setpriv --bounding-set=-ipc_lock \"$@\"";
  Processes processes("caller", 2, all);
  for (const Processes::End& end : processes.finish(kLimit)) {
    EXPECT_FALSE(end.hung);
    EXPECT_THAT(end.output, HasSubstr("cannot register 462848 bytes of memory (ulimit -l?)"));
  }
}

// ---- Several hosts, each of which runs this program

class Hosts : public Rdma {
 protected:
  void SetUp() override {
    Rdma::SetUp();
    if (guest_number("GUEST_COUNT", 1) < 2) GTEST_SKIP() << "this is not one of several guests";
  }
  // `each` ranks on every host.
  static void run(int each, const std::string& transports, int port) {
    const uint64_t before = packets_sent();
    const int ranks = each * guest_number("GUEST_COUNT", 1);
    Processes::Settings ours = rank_settings(ranks, each * guest_number("GUEST_ID", 0), transports);
    ours.environment.push_back("HOCKET_ADDRESS=10.77.0.1:" + std::to_string(port));
    expect_success("member", each, ours, kLimit);
    EXPECT_GT(packets_sent() - before, kCases) << "it went some other way";
  }
};

TEST_F(Hosts, OneRankOnEach) { run(1, "verbs", 4471); }

TEST_F(Hosts, TwoRanksOnEachThatShareMemory) { run(2, "shm,verbs", 4472); }

// Whose cards cut packets themselves, and so take them from where they lie (docs/decisions/0146).
class HostsThatCut : public Hosts {};

TEST_F(HostsThatCut, WhatGoesOverTcpIsNotCopiedAndOutlivesItsConnections) {
  Processes::Settings ours = rank_settings(2, guest_number("GUEST_ID", 0), "tcp");
  ours.environment.push_back("HOCKET_ADDRESS=10.77.0.1:4473");
  const Processes::End end = Processes("plain", 1, ours).finish(kLimit)[0];
  EXPECT_EQ(end.status, 0) << end.output;
  EXPECT_THAT("\n" + end.output, HasSubstr("\n1 without copies\n"));
  if (guest_number("GUEST_ID", 0) == 0) {
    EXPECT_THAT(end.output, HasSubstr("some were cut"));
  }
}

}  // namespace
}  // namespace hocket::test
