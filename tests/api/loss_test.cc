// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Ranks that are lost, as processes: killed in the middle of a call, gone without a word, or aborted. Every survivor
// returns from its call in time and can say who it was.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using Clock = std::chrono::steady_clock;
using testing::AnyOf;
using testing::HasSubstr;

constexpr size_t kCount = 300000;  // longer than what pipes hold
constexpr Seconds kLong{60};

// Calls until one fails; then says with what.
int call_until_it_fails(const Member& member) {
  std::vector<float> a(kCount, 1.0F);
  std::vector<float> b(kCount);
  for (int round = 0;; ++round) {
    const hocketResult_t result =
        hocketAllReduce(a.data(), b.data(), kCount, hocketFloat, hocketSum, member.comm, nullptr);
    if (result != hocketSuccess) {
      std::printf("failed %d: %s\n", result, hocketGetLastError(member.comm));
      return hocketCommDestroy(member.comm) == result ? 0 : 4;
    }
    if (round == 20) std::printf("running\n");
  }
}

const Role call_role("call", [](const Part& part) { return call_until_it_fails(part.join()); });

// Arguments: the rank that leaves, and how.
const Role leave_role("leave", [](const Part& part) {
  Member member = part.join();
  int32_t value = 1;
  hocketAllReduce(&value, &value, 1, hocketInt32, hocketSum, member.comm, nullptr);
  if (part.rank != std::atoi(part.arguments[0].c_str())) return call_until_it_fails(member);
  if (part.arguments[1] == "destroy") {
    if (hocketCommDestroy(member.comm) != hocketSuccess) return 5;
    std::this_thread::sleep_for(std::chrono::seconds(2));
  } else if (part.arguments[1] == "abort") {
    if (hocketCommAbort(member.comm) != hocketSuccess) return 5;
    std::this_thread::sleep_for(std::chrono::seconds(2));
  } else if (part.arguments[1] == "_exit") {
    _exit(0);
  }
  return 0;  // "return": the program ends and still has its communicator
});

class Loss : public testing::TestWithParam<const char*> {
 protected:
  Processes::Settings settings(std::vector<std::string> arguments = {}) const {
    return {{std::string("HOCKET_TRANSPORTS=") + GetParam(), "HOCKET_TIMEOUT=3s"}, std::move(arguments), {}, true};
  }

  // Every rank but one ended in order, having been told of that one.
  void expect_survivors_know(const std::vector<Processes::End>& ends, int lost) {
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      if (static_cast<int>(rank) == lost) continue;
      EXPECT_FALSE(ends[rank].hung) << "rank " << rank << " wrote: " << ends[rank].output;
      EXPECT_EQ(ends[rank].status, 0) << "rank " << rank << " wrote: " << ends[rank].output;
      EXPECT_THAT(ends[rank].output, HasSubstr("failed " + std::to_string(hocketRemoteError) + ": "));
      EXPECT_THAT(ends[rank].output, HasSubstr("rank " + std::to_string(lost)));
    }
  }
};

TEST_P(Loss, ARankIsKilledInTheMiddleOfACall) {
  for (const int victim : {0, 2}) {
    Processes processes("call", 4, settings());
    for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(processes.wait_for(rank, "running", kLong)) << "rank " << rank;
    const auto start = Clock::now();
    processes.send_signal(victim, SIGKILL);
    const std::vector<Processes::End> ends = processes.finish(kLong);
    EXPECT_EQ(ends[static_cast<size_t>(victim)].status, -SIGKILL);
    expect_survivors_know(ends, victim);
    EXPECT_THAT(ends[1].output, HasSubstr("reported by rank "));
    EXPECT_THAT(ends[1].output, HasSubstr("whose newest call was all_reduce(count "));
    std::printf("%s: rank %d killed, survivors gone after %.2f s\n", GetParam(), victim,
                Seconds(Clock::now() - start).count());
  }
}

TEST_P(Loss, ARankExitsWithoutAWord) {
  Processes processes("leave", 3, settings({"1", "_exit"}));
  expect_survivors_know(processes.finish(kLong), 1);
}

TEST_P(Loss, AProgramEndsAndStillHasItsCommunicator) {
  Processes processes("leave", 3, settings({"2", "return"}));
  expect_survivors_know(processes.finish(kLong), 2);
}

TEST_P(Loss, ARankDestroysItsCommunicatorEarly) {
  Processes processes("leave", 3, settings({"1", "destroy"}));
  const std::vector<Processes::End> ends = processes.finish(kLong);
  expect_survivors_know(ends, 1);
  EXPECT_EQ(ends[1].status, 0);
  EXPECT_THAT(ends[0].output, HasSubstr("rank 1 has left"));
}

TEST_P(Loss, ARankAborts) {
  Processes processes("leave", 3, settings({"1", "abort"}));
  const std::vector<Processes::End> ends = processes.finish(kLong);
  expect_survivors_know(ends, 1);
  EXPECT_EQ(ends[1].status, 0);
  EXPECT_THAT(ends[0].output, HasSubstr("rank 1 aborted the communicator"));
}

INSTANTIATE_TEST_SUITE_P(Transports, Loss, testing::Values("shm", "tcp"), [](const auto& each) { return each.param; });

// A process that joins too late to find the others is refused in time too.
const Role absent_role("absent", [](const Part& part) {
  if (part.rank == 1) return 0;
  hocketComm_t comm = nullptr;
  const hocketResult_t result = hocketCommInitFromEnvironment(&comm, nullptr);
  std::printf("failed %d: %s\n", result, hocketGetLastError(nullptr));
  return result == hocketSuccess ? 1 : 0;
});

TEST(Loss, ARankNeverJoins) {
  Processes::Settings settings;
  settings.environment = {"HOCKET_OPERATION_TIMEOUT=2s", "HOCKET_RANK={}", "HOCKET_SIZE=3",
                          "HOCKET_ADDRESS=127.0.0.1:" + std::to_string(free_port())};
  settings.unique_id = false;
  Processes processes("absent", 3, settings);
  const std::vector<Processes::End> ends = processes.finish(kLong);
  for (const size_t rank : {0u, 2u}) {
    EXPECT_FALSE(ends[rank].hung);
    EXPECT_EQ(ends[rank].status, 0) << ends[rank].output;
    EXPECT_THAT(ends[rank].output, HasSubstr("rank 1"));
  }
}

// Both ranks in one process, so that both are stopped; rank 1 comes late to every call, so that rank 0 waits.
const Role stopped_role("stopped", [](const Part&) {
  run_threads(
      2,
      [](Member& member) {
        for (int round = 0; round < 100; ++round) {
          if (member.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
          if (member.rank == 1 && round == 10) std::printf("running\n");
          EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess) << hocketGetLastError(member.comm);
        }
      },
      config_with_timeout(1000));
  return 0;
});

TEST(Stopped, TimeInWhichAProcessIsStoppedIsNobodysDelay) {
  Processes::Settings settings;
  settings.unique_id = false;
  Processes process("stopped", 1, settings);
  ASSERT_TRUE(process.wait_for(0, "running", kLong));
  process.send_signal(0, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  process.send_signal(0, SIGCONT);
  const Processes::End end = process.finish(kLong)[0];
  EXPECT_FALSE(end.hung);
  EXPECT_EQ(end.status, 0) << end.output;
}

// From another thread than the one that is inside a call.
TEST(Abort, WakesABlockedCallOnEveryRank) {
  run_threads(3, [](Member& member) {
    if (member.rank == 2) {
      // Lets the others into their calls; rank 2 never joins them.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      EXPECT_EQ(hocketCommAbort(member.comm), hocketSuccess);
      member.comm = nullptr;
      return;
    }
    float value = 1;
    expect_error(hocketAllReduce(&value, &value, 1, hocketFloat, hocketSum, member.comm, nullptr), hocketRemoteError,
                 member.comm, {"rank 2 aborted the communicator"});
  });
}

TEST(Abort, WakesTheCallThatAnotherThreadOfTheSameRankIsIn) {
  run_threads(2, [](Member& member) {
    float value = 1;
    if (member.rank == 1) {
      // Comes to the barrier, which the other rank cannot reach any more.
      expect_error(hocketBarrier(member.comm, nullptr), hocketRemoteError, member.comm, {"rank 0 aborted"});
      return;
    }
    std::thread caller(
        [&] { EXPECT_EQ(hocketRecv(&value, 1, hocketFloat, 1, member.comm, nullptr), hocketRemoteError); });
    hocketResult_t state = hocketSuccess;
    while (state != hocketInProgress) hocketCommGetAsyncError(member.comm, &state);
    EXPECT_EQ(hocketCommAbort(member.comm), hocketSuccess);
    caller.join();
    member.comm = nullptr;
  });
}

// Whenever the abort comes, a call succeeds, is told of it, or finds the handle gone.
TEST(Abort, OvertakesACallThatAnotherThreadBegins) {
  for (int round = 0; round < 200; ++round) {
    hocketComm_t comm = nullptr;
    ASSERT_EQ(hocketCommInitAll(&comm, 1, nullptr), hocketSuccess);
    std::atomic<bool> calling = false;
    hocketResult_t result = hocketSuccess;
    std::thread caller([&] {
      for (; result == hocketSuccess; calling = true) result = hocketBarrier(comm, nullptr);
    });
    while (!calling) std::this_thread::yield();
    EXPECT_EQ(hocketCommAbort(comm), hocketSuccess);
    caller.join();
    EXPECT_THAT(result, AnyOf(hocketRemoteError, hocketInvalidArgument));
  }
}

TEST(Abort, WakesAGroupOverSeveralCommunicators) {
  hocketComm_t first[2];
  hocketComm_t second[2];
  ASSERT_EQ(hocketCommInitAll(first, 2, nullptr), hocketSuccess);
  ASSERT_EQ(hocketCommInitAll(second, 2, nullptr), hocketSuccess);
  float values[2] = {1, 1};
  std::atomic<bool> inside = false;
  std::thread caller([&] {
    hocketGroupStart();
    hocketRecv(&values[0], 1, hocketFloat, 1, first[0], nullptr);
    hocketRecv(&values[1], 1, hocketFloat, 1, second[0], nullptr);
    inside = true;
    EXPECT_EQ(hocketGroupEnd(), hocketRemoteError);
  });
  hocketResult_t state = hocketSuccess;
  while (!inside || state != hocketInProgress) hocketCommGetAsyncError(first[0], &state);
  EXPECT_EQ(hocketCommAbort(first[0]), hocketSuccess);
  EXPECT_EQ(hocketSend(&values[0], 1, hocketFloat, 0, second[1], nullptr), hocketSuccess);
  caller.join();
  EXPECT_EQ(hocketCommAbort(first[1]), hocketSuccess);
  for (hocketComm_t comm : second) EXPECT_EQ(hocketCommAbort(comm), hocketSuccess);
}

TEST(Abort, OfACommunicatorWithQueuedCalls) {
  run_threads(2, [](Member& member) {
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    std::vector<float> values(4, 1.0F);
    if (member.rank == 0) {
      for (float& value : values) {
        EXPECT_EQ(hocketRecv(&value, 1, hocketFloat, 1, member.comm, hocketQueueStream(queue)), hocketSuccess);
      }
      EXPECT_EQ(hocketCommAbort(member.comm), hocketSuccess);
      EXPECT_EQ(hocketQueueSynchronize(queue), hocketRemoteError);
      member.comm = nullptr;
    } else {
      expect_error(hocketBarrier(member.comm, nullptr), hocketRemoteError, member.comm, {"rank 0 aborted"});
    }
    EXPECT_NE(hocketQueueDestroy(queue), hocketInvalidArgument);
  });
}

}  // namespace
}  // namespace hocket::test
