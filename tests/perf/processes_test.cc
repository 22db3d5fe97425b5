// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "perf/processes.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <iterator>
#include <set>

namespace hocket::perf {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr Patience kShort{milliseconds(50), milliseconds(50)};
constexpr int kForEver = 60;  // seconds; never waited for

TEST(Processes, EachHaveTheirSeat) {
  const int status = run_processes("test", 3, [](const Seat& seat) {
    return seat.processes() == 3 && seat.process() >= 0 && seat.process() < 3 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(Processes, AllGetTheIdOfProcessZero) {
  const int status = run_processes("test", 9, [](const Seat& seat) {
    hocketUniqueId id{};
    if (seat.process() == 0) {
      std::memset(id.internal, 0x5C, sizeof(id.internal));
      return seat.publish(id).ok() ? 0 : 1;
    }
    if (!seat.receive(id).ok()) return 2;
    for (const char byte : id.internal) {
      if (byte != 0x5C) return 3;
    }
    return 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(Processes, DoNotWaitForAnIdThatWillNeverCome) {
  const int status = run_processes(
      "test", 2,
      [](const Seat& seat) {
        hocketUniqueId id{};
        if (seat.process() == 0) return 0;
        return seat.receive(id).message == "process 0 ended before it gave the unique id" ? 42 : 1;
      },
      kShort);
  EXPECT_EQ(status, 42);
}

std::set<size_t> allowed_cores() {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::set<size_t> cores;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.insert(core);
  }
  return cores;
}

TEST(Processes, TakeACoreEach) {
  const std::set<size_t> all = allowed_cores();
  const int status = run_processes("test", static_cast<int>(all.size()), [&](const Seat& seat) {
    seat.take_core();
    return allowed_cores() == std::set{*std::next(all.begin(), seat.process())} ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(Processes, ShareCoresOfWhichThereAreTooFew) {
  const std::set<size_t> all = allowed_cores();
  const int status = run_processes("test", static_cast<int>(all.size()) + 1, [&](const Seat& seat) {
    seat.take_core();
    return allowed_cores() == all ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(Processes, AllEndWhenOneFails) {
  const auto start = Clock::now();
  const int status = run_processes(
      "test", 4,
      [](const Seat& seat) {
        if (seat.process() == 2) return 9;
        sleep(kForEver);
        return 0;
      },
      kShort);
  EXPECT_EQ(status, 9);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(kForEver / 2));
}

// The others may see the death sooner than the starter does, and end with errors of their own.
TEST(Processes, TheKilledOneIsTheCause) {
  const int status = run_processes("test", 3, [](const Seat& seat) {
    if (seat.process() == 2) {
      usleep(50'000);
      raise(SIGKILL);
    }
    return 3;
  });
  EXPECT_EQ(status, 128 + SIGKILL);
}

TEST(Processes, AllEndWhenOneIsKilledEvenThoseThatIgnoreRequests) {
  const auto start = Clock::now();
  const int status = run_processes(
      "test", 3,
      [](const Seat& seat) {
        if (seat.process() == 1) raise(SIGKILL);
        signal(SIGTERM, SIG_IGN);
        sleep(kForEver);
        return 0;
      },
      kShort);
  EXPECT_EQ(status, 128 + SIGKILL);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(kForEver / 2));
}

// The starter itself runs in a process of its own here, as it does for a user who presses Ctrl-C.
TEST(Processes, AllEndWithTheStartersSignal) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t starter = fork();
  if (starter == 0) {
    _exit(run_processes(
        "test", 2,
        [&](const Seat&) {
          if (write(ready[1], "x", 1) != 1) return 1;
          sleep(kForEver);
          return 0;
        },
        kShort));
  }
  close(ready[1]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(starter, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(starter, &status, 0), starter);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
  // Whoever lived on would hold the pipe open.
  EXPECT_EQ(read(ready[0], &byte, 1), 0);
  close(ready[0]);
}

}  // namespace
}  // namespace hocket::perf
