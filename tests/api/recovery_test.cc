// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What survivors do: learn who is lost, revoke, go on without them, and take in newcomers.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using Clock = std::chrono::steady_clock;

// Every rank learns every other's number at the start; the communicator works.
std::vector<int32_t> gather(hocketComm_t comm, int32_t own) {
  int ranks = 0;
  EXPECT_EQ(hocketCommCount(comm, &ranks), hocketSuccess);
  std::vector<int32_t> all(static_cast<size_t>(ranks), -1);
  EXPECT_EQ(hocketAllGather(&own, all.data(), 1, hocketInt32, comm, nullptr), hocketSuccess)
      << hocketGetLastError(comm);
  return all;
}

int count_failed(hocketComm_t comm) {
  int count = -1;
  EXPECT_EQ(hocketCommGetFailed(comm, nullptr, 0, &count), hocketSuccess);
  return count;
}

TEST(Revoke, EndsWhatIsUnderWayOnEveryRankAndBlamesNobody) {
  std::atomic<int> inside = 0;
  run_threads(4, [&](Member& member) {
    float value = 1;
    if (member.rank == 3) {
      while (inside < 3) std::this_thread::yield();
      EXPECT_EQ(count_failed(member.comm), 0);
      EXPECT_EQ(hocketCommRevoke(member.comm, HOCKET_REVOKE_DEFAULT), hocketSuccess);
    } else {
      ++inside;
    }
    expect_error(hocketAllReduce(&value, &value, 1, hocketFloat, hocketSum, member.comm, nullptr), hocketRemoteError,
                 member.comm, {"rank 3 revoked the communicator"});
    EXPECT_EQ(count_failed(member.comm), 0);
    hocketComm_t again = nullptr;
    ASSERT_EQ(hocketCommShrink(member.comm, nullptr, 0, &again, nullptr, HOCKET_SHRINK_DEFAULT), hocketSuccess);
    EXPECT_EQ(gather(again, member.rank), (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(hocketCommDestroy(again), hocketSuccess);
  });
}

TEST(Shrink, WithoutAFailureLeavesTheParentAsItWas) {
  run_threads(5, [](Member& member) {
    int excluded[] = {3, 1, 3};
    if (member.rank % 2 == 0) {
      for (int round = 0; round < 2; ++round) {
        hocketComm_t fewer = nullptr;
        ASSERT_EQ(hocketCommShrink(member.comm, excluded, 3, &fewer, nullptr, HOCKET_SHRINK_DEFAULT), hocketSuccess);
        EXPECT_EQ(gather(fewer, member.rank), (std::vector<int32_t>{0, 2, 4}));
        EXPECT_EQ(hocketCommDestroy(fewer), hocketSuccess);
      }
    }
    EXPECT_EQ(gather(member.comm, member.rank), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  });
}

TEST(Shrink, WithAbortEndsTheCallsThatAreUnderWay) {
  std::atomic<bool> is_under_way = false;
  run_threads(3, [&](Member& member) {
    float value = 1;
    std::thread caller;
    if (member.rank == 0) {
      caller = std::thread(
          [&] { EXPECT_EQ(hocketRecv(&value, 1, hocketFloat, 1, member.comm, nullptr), hocketRemoteError); });
      hocketResult_t state = hocketSuccess;
      while (state != hocketInProgress) hocketCommGetAsyncError(member.comm, &state);
      is_under_way = true;
    }
    while (!is_under_way) std::this_thread::yield();
    hocketComm_t again = nullptr;
    ASSERT_EQ(hocketCommShrink(member.comm, nullptr, 0, &again, nullptr, HOCKET_SHRINK_ABORT), hocketSuccess);
    if (caller.joinable()) caller.join();
    EXPECT_EQ(gather(again, member.rank), (std::vector<int32_t>{0, 1, 2}));
    EXPECT_EQ(hocketCommDestroy(again), hocketSuccess);
  });
}

TEST(Shrink, RefusesWhatCannotBe) {
  run_threads(2, [](Member& member) {
    hocketComm_t made = nullptr;
    int nobody = 2;
    int self = member.rank;
    const auto shrink = [&](int* ranks, int count, int flags) {
      return hocketCommShrink(member.comm, ranks, count, &made, nullptr, flags);
    };
    expect_error(shrink(&nobody, 1, 0), hocketInvalidArgument, member.comm, {"excludeRanksList", "no rank 2 of 2"});
    expect_error(shrink(&self, 1, 0), hocketInvalidUsage, member.comm, {"it is excluded"});
    expect_error(shrink(nullptr, 1, 0), hocketInvalidArgument, nullptr, {"excludeRanksList is NULL"});
    expect_error(shrink(&self, -1, 0), hocketInvalidArgument, nullptr, {"excludeRanksCount: -1"});
    expect_error(shrink(nullptr, 0, 2), hocketInvalidArgument, nullptr, {"shrinkFlags: 2"});
    EXPECT_EQ(hocketCommRevoke(member.comm, 1), hocketInvalidArgument);
    EXPECT_EQ(hocketCommGetFailed(member.comm, nullptr, 0, nullptr), hocketInvalidArgument);
    EXPECT_EQ(hocketCommGetFailed(member.comm, nullptr, 1, &self), hocketInvalidArgument);
    EXPECT_EQ(made, nullptr);
    gather(member.comm, member.rank);
  });
}

// All but rank 1 are to make a communicator. Rank 3, its third, is killed before it comes.
const Role early_role("early", [](const Part& part) {
  const Member member = part.join();
  EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
  hocketComm_t fewer = nullptr;
  int excluded = 1;
  if (part.rank % 2 == 0) {
    EXPECT_EQ(hocketCommShrink(member.comm, &excluded, 1, &fewer, nullptr, HOCKET_SHRINK_DEFAULT), hocketSuccess);
  }
  std::printf("running\n");
  if (part.rank == 3) pause();
  hocketComm_t waiting = part.rank == 1 ? member.comm : fewer;
  const std::string lost = part.rank == 1 ? "rank 3 (" : "of which this one was being made has failed: rank 3 (";
  expect_error(hocketBarrier(waiting, nullptr), hocketRemoteError, waiting, {lost, "died"});
  int failed = -1;
  int count = -1;
  EXPECT_EQ(hocketCommGetFailed(waiting, &failed, 1, &count), hocketSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(failed, part.rank == 1 ? 3 : 2);
  hocketComm_t survivors = nullptr;
  EXPECT_EQ(hocketCommShrink(member.comm, nullptr, 0, &survivors, nullptr, HOCKET_SHRINK_ABORT), hocketSuccess);
  EXPECT_EQ(gather(survivors, part.rank), (std::vector<int32_t>{0, 1, 2}));
  for (hocketComm_t comm : {survivors, fewer, member.comm}) hocketCommDestroy(comm);
  return testing::Test::HasFailure() ? 2 : 0;
});

// Long before HOCKET_TIMEOUT, after which who cannot reach it would say so.
TEST(Shrink, WhoIsLostBeforeItComesIsNamedByTheOneThatIsShrunk) {
  Processes processes("early", 4, {{"HOCKET_TIMEOUT=20s"}, {}, {}, true});
  for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(processes.wait_for(rank, "running", Seconds(60)));
  processes.send_signal(3, SIGKILL);
  const std::vector<Processes::End> ends = processes.finish(Seconds(60));
  for (const size_t rank : {0u, 1u, 2u})
    EXPECT_EQ(ends[rank].status, 0) << "rank " << rank << ": " << ends[rank].output;
}

// Rank 3 is killed; rank 2 dies before it shrinks, when the others may have destroyed what told of rank 3.
const Role never_came_role("never came", [](const Part& part) {
  const Member member = part.join();
  std::printf("running\n");
  while (hocketBarrier(member.comm, nullptr) == hocketSuccess) {
  }
  if (part.rank == 2) raise(SIGKILL);
  hocketComm_t fewer = nullptr;
  EXPECT_EQ(hocketCommShrink(member.comm, nullptr, 0, &fewer, nullptr, HOCKET_SHRINK_ABORT), hocketSuccess);
  hocketCommDestroy(member.comm);
  const auto begin = Clock::now();
  expect_error(hocketBarrier(fewer, nullptr), hocketRemoteError, fewer, {"rank 2 (process"});
  EXPECT_LT(Seconds(Clock::now() - begin).count(), 10);
  EXPECT_EQ(count_failed(fewer), 1);
  hocketCommDestroy(fewer);
  return testing::Test::HasFailure() ? 2 : 0;
});

// Half of HOCKET_TIMEOUT is far more than they need.
TEST(Shrink, WhoDiesOnThisHostBeforeItComesIsNamedLongBeforeTheTimeout) {
  Processes processes("never came", 4, {{"HOCKET_TIMEOUT=20s"}, {}, {}, true});
  for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(processes.wait_for(rank, "running", Seconds(60)));
  processes.send_signal(3, SIGKILL);
  const std::vector<Processes::End> ends = processes.finish(Seconds(60));
  for (const size_t rank : {0u, 1u}) EXPECT_EQ(ends[rank].status, 0) << "rank " << rank << ": " << ends[rank].output;
}

// A newcomer's part of a growth to `ranks`.
void join_as(int rank, int ranks, const hocketUniqueId& id) {
  hocketComm_t comm = nullptr;
  ASSERT_EQ(hocketCommGrow(nullptr, ranks, &id, rank, &comm, nullptr), hocketSuccess) << hocketGetLastError(nullptr);
  gather(comm, 100 + rank);
  EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
}

TEST(Grow, TakesInNewcomers) {
  std::vector<double> seconds;
  run_threads(3, [&](Member& member) {
    for (int round = 0; round < 10; ++round) {
      std::vector<std::thread> newcomers;
      hocketUniqueId id;
      const auto start = Clock::now();
      if (member.rank == 1) {
        ASSERT_EQ(hocketCommGetUniqueId(member.comm, &id), hocketSuccess);
        for (const int rank : {3, 4}) newcomers.emplace_back(join_as, rank, 5, id);
      }
      hocketComm_t more = nullptr;
      ASSERT_EQ(hocketCommGrow(member.comm, 5, member.rank == 1 ? &id : nullptr, -1, &more, nullptr), hocketSuccess)
          << hocketGetLastError(nullptr);
      EXPECT_EQ(gather(more, member.rank), (std::vector<int32_t>{0, 1, 2, 103, 104}));
      if (member.rank == 1) seconds.push_back(Seconds(Clock::now() - start).count());
      EXPECT_EQ(hocketCommDestroy(more), hocketSuccess);
      for (std::thread& newcomer : newcomers) newcomer.join();
      gather(member.comm, member.rank);
    }
  });
  std::sort(seconds.begin(), seconds.end());
  std::printf("3 ranks grow to 5 and gather: %.1f ms (median), %.1f ms (longest)\n", seconds[seconds.size() / 2] * 1e3,
              seconds.back() * 1e3);
  EXPECT_LT(seconds[seconds.size() / 2], 1);
}

TEST(Grow, RefusesWhatCannotBe) {
  run_threads(2, [](Member& member) {
    hocketComm_t made = nullptr;
    hocketUniqueId id;
    ASSERT_EQ(hocketCommGetUniqueId(member.comm, &id), hocketSuccess);
    const auto grow = [&](int ranks, const hocketUniqueId* brought, int rank) {
      return hocketCommGrow(member.comm, ranks, brought, rank, &made, nullptr);
    };
    expect_error(grow(2, &id, -1), hocketInvalidArgument, member.comm, {"nRanks: 2"});
    expect_error(grow(3, &id, 1), hocketInvalidArgument, nullptr, {"rank: 1"});
    expect_error(grow(3, &id, -1), hocketInvalidUsage, member.comm, {"more than one rank brings one"});
    expect_error(grow(3, nullptr, -1), hocketInvalidUsage, member.comm, {"NULL on all ranks"});
    expect_error(grow(3 + member.rank, nullptr, -1), hocketInvalidUsage, member.comm, {"nRanks"});
    expect_error(hocketCommGrow(nullptr, 3, nullptr, 2, &made, nullptr), hocketInvalidArgument, nullptr, {"uniqueId"});
    std::memset(id.internal, 7, sizeof id.internal);
    expect_error(hocketCommGrow(nullptr, 3, &id, 2, &made, nullptr), hocketInvalidArgument, nullptr,
                 {"no unique id of hocket"});
    EXPECT_EQ(made, nullptr);
    gather(member.comm, member.rank);
  });
}

// A process that is killed is replaced: the others shrink, one tells the newcomer the id, and all grow again.
// Nobody ends its program in a usual way, as Python's forked workers do not: whoever destroys has taken its leave.
const Role leaving_role("leaving", [](const Part& part) {
  const Member member = part.join();
  hocketComm_t part_of_all = nullptr;
  if (hocketCommSplit(member.comm, 0, part.rank, &part_of_all, nullptr) != hocketSuccess) return 1;
  if (part.rank != 2) {
    hocketCommDestroy(member.comm);
    hocketCommDestroy(part_of_all);
    _exit(0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (const hocketComm_t comm : {member.comm, part_of_all}) {
    hocketResult_t failure = hocketSuccess;
    EXPECT_EQ(hocketCommGetAsyncError(comm, &failure), hocketSuccess);
    EXPECT_EQ(failure, hocketSuccess) << hocketGetLastError(comm);
    hocketCommDestroy(comm);
  }
  return testing::Test::HasFailure() ? 2 : 0;
});

TEST(Split, WhoDestroysACommunicatorAndItsPartIsNotTakenForDead) { expect_success("leaving", 4, {}, Seconds(60)); }

const Role lasting_role("lasting", [](const Part& part) {
  Member member = part.join();
  std::printf("running\n");
  while (hocketBarrier(member.comm, nullptr) == hocketSuccess) {
  }
  const auto noticed = Clock::now();
  int lost = -1;
  int count = 0;
  EXPECT_EQ(hocketCommGetFailed(member.comm, &lost, 1, &count), hocketSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(lost, 1);
  hocketComm_t fewer = nullptr;
  if (hocketCommShrink(member.comm, nullptr, 0, &fewer, nullptr, HOCKET_SHRINK_ABORT) != hocketSuccess) return 2;
  EXPECT_EQ(gather(fewer, part.rank), (std::vector<int32_t>{0, 2, 3}));
  const auto shrunk = Clock::now();
  hocketUniqueId id;
  std::thread newcomer;
  if (part.rank == 0) {
    EXPECT_EQ(hocketCommGetUniqueId(fewer, &id), hocketSuccess);
    newcomer = std::thread(join_as, 3, 4, id);
  }
  hocketComm_t whole = nullptr;
  if (hocketCommGrow(fewer, 4, part.rank == 0 ? &id : nullptr, -1, &whole, nullptr) != hocketSuccess) return 3;
  EXPECT_EQ(gather(whole, part.rank), (std::vector<int32_t>{0, 2, 3, 103}));
  std::printf("times %.6f %.6f\n", Seconds(shrunk - noticed).count(), Seconds(Clock::now() - shrunk).count());
  if (newcomer.joinable()) newcomer.join();
  for (hocketComm_t comm : {whole, fewer, member.comm}) hocketCommDestroy(comm);
  return 0;
});

double percentile_99(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() * 99 / 100];
}

// GROWTHS: how often (./dev soak: 300). The figures are for reading: this machine may be busy.
TEST(Grow, ReplacesARankThatWasKilled) {
  const char* wanted = std::getenv("GROWTHS");
  std::vector<double> shrinking, growing;
  for (int left = wanted == nullptr ? 1 : std::atoi(wanted); left > 0; --left) {
    Processes processes("lasting", 4, {});
    for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(processes.wait_for(rank, "running", Seconds(60)));
    processes.send_signal(1, SIGKILL);
    const std::vector<Processes::End> ends = processes.finish(Seconds(60));
    for (const size_t rank : {0u, 2u, 3u}) {
      ASSERT_EQ(ends[rank].status, 0) << "rank " << rank << ": " << ends[rank].output;
      double shrunk = 0, grown = 0;
      const size_t at = ends[rank].output.find("times ");
      ASSERT_NE(at, std::string::npos) << ends[rank].output;
      ASSERT_EQ(std::sscanf(ends[rank].output.c_str() + at, "times %lf %lf", &shrunk, &grown), 2);
      shrinking.push_back(shrunk);
      growing.push_back(grown);
    }
  }
  std::printf("%zu survivors: shrunk after %.1f ms (p99), grown after %.1f ms (p99), to the first right collective\n",
              shrinking.size(), 1e3 * percentile_99(shrinking), 1e3 * percentile_99(growing));
}

}  // namespace
}  // namespace hocket::test
