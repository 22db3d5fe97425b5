// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Windows over RDMA, between two ranks of one host: the device moves what is put and got while the peer's process is
// stopped. (All one-sided calls over verbs: one_sided_test, which CMakeLists.txt runs in a guest too.)
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "guests.h"
#include "tests/api/grid.h"

namespace hocket::test {
namespace {

constexpr size_t kPart = 300'001;  // more than all slots of an end
const char* const kStopped = "/tmp/rank-1-is-stopped";

int refuse(hocketComm_t comm, const char* what) {
  std::printf("%s: %s\n", what, hocketGetLastError(comm));
  return 1;
}

unsigned char value(size_t i) { return static_cast<unsigned char>(i % 249 + 3); }

// Puts, and gets what was put, by itself.
int move(hocketComm_t comm, hocketWindow_t window) {
  std::vector<unsigned char> data(kPart);
  for (size_t i = 0; i < kPart; ++i) data[i] = value(i);
  if (hocketPut(data.data(), kPart, hocketUint8, 1, window, 0, comm, nullptr) != hocketSuccess) {
    return refuse(comm, "put");
  }
  std::vector<unsigned char> back(kPart);
  if (hocketGet(back.data(), kPart, hocketUint8, 1, window, 0, comm, nullptr) != hocketSuccess) {
    return refuse(comm, "get");
  }
  if (back == data) return 0;
  std::printf("what was put is not what was got\n");
  return 1;
}

// Rank 0 opens the door, waits until rank 1 is stopped, moves, and signals.
const Role accessor_role("accessor", [](const Part&) {
  const int rank = std::atoi(std::getenv("HOCKET_RANK"));
  hocketComm_t comm = nullptr;
  hocketWindow_t window = nullptr;
  std::vector<unsigned char> part(kPart);
  if (hocketCommInitFromEnvironment(&comm, nullptr) != hocketSuccess ||
      hocketCommWindowRegister(comm, part.data(), kPart, &window, HOCKET_WIN_DEFAULT) != hocketSuccess ||
      hocketBarrier(comm, nullptr) != hocketSuccess) {
    return refuse(comm, "cannot begin");
  }
  const hocketWaitSignalDesc_t told{1, 0, 0, 0};
  if (rank == 0) {
    const char one = 1;
    if (hocketPut(&one, 1, hocketUint8, 1, window, 0, comm, nullptr) != hocketSuccess) return refuse(comm, "put");
    std::printf("open\n");
    while (!std::filesystem::exists(kStopped)) usleep(10'000);
    if (move(comm, window) != 0) return 1;
    std::printf("moved\n");
    if (hocketSignal(1, 0, 0, 0, comm, nullptr) != hocketSuccess) return refuse(comm, "signal");
    std::printf("signalled\n");
  } else {
    if (hocketWaitSignal(1, &told, comm, nullptr) != hocketSuccess) return refuse(comm, "wait");
    for (size_t i = 0; i < kPart; ++i) {
      if (part[i] == value(i)) continue;
      std::printf("wrong byte %zu\n", i);
      return 1;
    }
  }
  const bool ended = hocketCommWindowDeregister(comm, window) == hocketSuccess;
  return ended && hocketCommDestroy(comm) == hocketSuccess ? 0 : 1;
});

using OneHostWindows = Rdma;

TEST_F(OneHostWindows, MoveWhileThePeerIsStoppedAndSignalsWaitForIt) {
  std::filesystem::remove(kStopped);
  Processes::Settings all = rank_settings(2, 0, "verbs");
  all.environment.push_back("HOCKET_ADDRESS=127.0.0.1:" + std::to_string(free_port()));
  Processes processes("accessor", 2, all);
  ASSERT_TRUE(processes.wait_for(0, "open", kLimit));
  processes.send_signal(1, SIGSTOP);
  const uint64_t before = packets_sent();
  EXPECT_EQ(std::system((std::string("touch ") + kStopped).c_str()), 0);
  EXPECT_TRUE(processes.wait_for(0, "moved", kLimit));
  EXPECT_GE(packets_sent() - before, 2 * kPart / 4096) << "it went some other way";
  EXPECT_FALSE(processes.wait_for(0, "signalled", Seconds(1))) << "a stopped process has taken a signal";
  processes.send_signal(1, SIGCONT);
  for (const Processes::End& end : processes.finish(kLimit)) EXPECT_EQ(end.status, 0) << end.output;
}

}  // namespace
}  // namespace hocket::test
