// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Communicators that come and go leave nothing behind: no descriptor, thread, memory or file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

long entries(const char* folder) {
  std::error_code error;
  long count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) count += !entry.path().empty();
  return count;
}

struct Figures {
  long descriptors = entries("/proc/self/fd");
  long threads = entries("/proc/self/task");
  long shared_files = entries("/dev/shm");
  long resident_kib = resident();
  long mappings = lines("/proc/self/maps");

  static long resident() {
    long total = 0;
    long pages = 0;
    std::ifstream("/proc/self/statm") >> total >> pages;
    return pages * sysconf(_SC_PAGESIZE) / 1024;
  }
  static long lines(const char* path) {
    std::ifstream file(path);
    long count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }
};

void print(const char* when, const Figures& figures) {
  std::printf("%s: %ld descriptors, %ld threads, %ld files in /dev/shm, %ld mappings, %ld KiB resident\n", when,
              figures.descriptors, figures.threads, figures.shared_files, figures.mappings, figures.resident_kib);
}

// Communicators of two ranks, each used for a collective, a split and a transfer, then destroyed.
void live_and_die(int cycles) {
  on_threads(1, [&](int) {
    for (int cycle = 0; cycle < cycles && !testing::Test::HasFailure(); ++cycle) {
      run_threads(2, [&](Member& member) {
        std::vector<int32_t> values(20000, 1);
        EXPECT_EQ(
            hocketAllReduce(values.data(), values.data(), values.size(), hocketInt32, hocketSum, member.comm, nullptr),
            hocketSuccess);
        EXPECT_EQ(values[19999], 2);
        if (cycle % 10 != 0) return;
        hocketComm_t part = nullptr;
        EXPECT_EQ(hocketCommSplit(member.comm, 0, 0, &part, nullptr), hocketSuccess);
        const auto use = member.rank == 0 ? hocketSend(values.data(), 1, hocketInt32, 1, part, nullptr)
                                          : hocketRecv(values.data(), 1, hocketInt32, 0, part, nullptr);
        EXPECT_EQ(use, hocketSuccess);
        EXPECT_EQ(hocketCommDestroy(part), hocketSuccess);
        // Every now and then one is left in the middle of a call.
        if (cycle % 20 == 0) {
          hocketCommAbort(member.comm);
          member.comm = nullptr;
        }
      });
    }
  });
}

// Connections are closed by the service thread, some of them after the call that gave them up has returned: the figures
// once the descriptors have stayed as they are for half a second.
Figures settled() {
  long last = -1;
  for (int same = 0; same < 25;) {
    const long now = entries("/proc/self/fd");
    same = now == last ? same + 1 : 0;
    last = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return {};
}

// CYCLES: how many.
TEST(Cycles, OfThreadsLeaveNothing) {
  const char* given = std::getenv("CYCLES");
  const int cycles = given == nullptr ? 1000 : std::stoi(given);
  live_and_die(100);  // what the library keeps for itself
  const Figures before = settled();
  print("before", before);
  live_and_die(cycles);
  const Figures after = settled();
  print("after all cycles", after);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_LE(after.mappings, before.mappings + 20);
  EXPECT_LE(after.shared_files, before.shared_files);
  EXPECT_LE(after.resident_kib, before.resident_kib + 8192);
}

const Role brief_role("brief", [](const Part& part) {
  const Member member = part.join();
  int32_t value = 1;
  const hocketResult_t result = hocketAllReduce(&value, &value, 1, hocketInt32, hocketSum, member.comm, nullptr);
  if (result != hocketSuccess || value != part.ranks) return 1;
  return hocketCommDestroy(member.comm) == hocketSuccess ? 0 : 2;
});

// This process is the root of them all.
TEST(Cycles, OfProcessesLeaveNothing) {
  for (int cycle = 0; cycle < 5; ++cycle) expect_success("brief", 2, {}, Seconds(60));
  const Figures before;
  print("before", before);
  for (int cycle = 0; cycle < 100 && !HasFailure(); ++cycle) expect_success("brief", 2, {}, Seconds(60));
  const Figures after;
  print("after 100 pairs of processes", after);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_LE(after.shared_files, before.shared_files);
  EXPECT_LE(after.resident_kib, before.resident_kib + 8192);
}

}  // namespace
}  // namespace hocket::test
