// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sends and receives that are made again and again: alone, in groups, beside other calls, and what goes wrong then.
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using Values = std::vector<int32_t>;

// Of one message among all.
Values values(size_t count, int from, int round) {
  Values result(count);
  std::iota(result.begin(), result.end(), 1'000'000 * from + 1000 * round);
  return result;
}

hocketResult_t send(const Values& from, int peer, hocketComm_t comm, hocketStream_t stream = nullptr) {
  return hocketSend(from.data(), from.size(), hocketInt32, peer, comm, stream);
}

hocketResult_t receive(Values& to, int peer, hocketComm_t comm, hocketStream_t stream = nullptr) {
  return hocketRecv(to.data(), to.size(), hocketInt32, peer, comm, stream);
}

// To the next rank, from the one before.
hocketResult_t pass_on(const Values& from, Values& to, const Member& member) {
  hocketGroupStart();
  EXPECT_EQ(send(from, (member.rank + 1) % member.ranks, member.comm), hocketSuccess);
  EXPECT_EQ(receive(to, (member.rank + member.ranks - 1) % member.ranks, member.comm), hocketSuccess);
  return hocketGroupEnd();
}

// Those like it are repeats from then on.
void pass_on_thrice(const Member& member, size_t count) {
  const Values from(count, member.rank);
  Values to(count, -1);
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(pass_on(from, to, member), hocketSuccess) << hocketGetLastError(member.comm);
  }
}

class Transfers : public testing::TestWithParam<int> {};

TEST_P(Transfers, InGroupsAgainWithOtherBuffersAndCounts) {
  run_threads(GetParam(), [](Member& member) {
    const int previous = (member.rank + member.ranks - 1) % member.ranks;
    for (int round = 0; round < 200; ++round) {
      const size_t count = std::array<size_t, 5>{1, 16, 100, 5000, 100'000}[static_cast<size_t>(round / 2 % 5)];
      const Values from = values(count, member.rank, round);
      Values to(count);
      ASSERT_EQ(pass_on(from, to, member), hocketSuccess) << hocketGetLastError(member.comm);
      ASSERT_EQ(to, values(count, previous, round)) << "round " << round;
    }
  });
}

TEST_P(Transfers, WithAllOthersInOneGroupAgain) {
  run_threads(GetParam(), [](Member& member) {
    for (int round = 0; round < 50; ++round) {
      const Values from = values(10, member.rank, round);
      std::vector<Values> to(static_cast<size_t>(member.ranks), Values(10));
      hocketGroupStart();
      for (int peer = 0; peer < member.ranks; ++peer) {  // oneself included
        EXPECT_EQ(receive(to[static_cast<size_t>(peer)], peer, member.comm), hocketSuccess);
        EXPECT_EQ(send(from, peer, member.comm), hocketSuccess);
      }
      ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(member.comm);
      for (int peer = 0; peer < member.ranks; ++peer) ASSERT_EQ(to[static_cast<size_t>(peer)], values(10, peer, round));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Transfers, testing::Values(2, 3, 4));

// More than a pipe holds.
TEST(ManyTransfers, InOneGroupKeepTheirOrder) {
  run_threads(2, [](Member& member) {
    const int peer = 1 - member.rank;
    for (int round = 0; round < 20; ++round) {
      std::array<int32_t, 100> from{}, to{};
      std::iota(from.begin(), from.end(), 1000 * round + 100'000 * member.rank);
      hocketGroupStart();
      for (const int32_t& value : from) hocketSend(&value, 1, hocketInt32, peer, member.comm, nullptr);
      for (int32_t& value : to) hocketRecv(&value, 1, hocketInt32, peer, member.comm, nullptr);
      ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(member.comm);
      std::array<int32_t, 100> expected{};
      std::iota(expected.begin(), expected.end(), 1000 * round + 100'000 * peer);
      ASSERT_EQ(to, expected);
    }
  });
}

TEST(ManyTransfers, OneByOneThereAndBack) {
  run_threads(2, [](Member& member) {
    const int peer = 1 - member.rank;
    for (int round = 0; round < 300; ++round) {
      const size_t count = round % 3 == 0 ? 20'000 : 3;
      const Values from = values(count, member.rank, round);
      Values to(count);
      const bool begins = member.rank == 0;
      ASSERT_EQ(begins ? send(from, peer, member.comm) : receive(to, peer, member.comm), hocketSuccess);
      ASSERT_EQ(begins ? receive(to, peer, member.comm) : send(from, peer, member.comm), hocketSuccess);
      ASSERT_EQ(to, values(count, peer, round));
    }
  });
}

// Who receives them comes late: some find no room, and then nothing comes for long.
TEST(ManyTransfers, WaitForALateReceiver) {
  run_threads(2, [](Member& member) {
    for (int round = 0; round < 100; ++round) {
      const Values from = values(1000, 0, round);
      Values to(1000);
      if (round == 50 && member.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      hocketGroupStart();
      EXPECT_EQ(member.rank == 0 ? send(from, 1, member.comm) : receive(to, 0, member.comm), hocketSuccess);
      ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(member.comm);
      ASSERT_EQ(to, member.rank == 1 ? from : Values(1000));
    }
  });
}

TEST(RepeatedTransfers, BesideOtherCallsOfTheirGroup) {
  run_threads(2, [](Member& member) {
    pass_on_thrice(member, 10);
    for (const bool first : {true, false}) {
      int64_t sum = 1;
      const Values from = values(10, member.rank, first ? 1 : 2);
      Values to(10);
      const auto add = [&] {
        EXPECT_EQ(hocketAllReduce(&sum, &sum, 1, hocketInt64, hocketSum, member.comm, nullptr), hocketSuccess);
      };
      hocketGroupStart();
      if (first) add();
      ASSERT_EQ(pass_on(from, to, member), hocketSuccess) << "an inner group";
      EXPECT_EQ(to, Values(10)) << "ran too early";
      if (!first) add();
      ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(member.comm);
      EXPECT_EQ(sum, 2);
      EXPECT_EQ(to, values(10, 1 - member.rank, first ? 1 : 2));
    }
  });
}

TEST(RepeatedTransfers, OfAGroupThatMakesCommunicatorsToo) {
  run_threads(2, [](Member& member) {
    pass_on_thrice(member, 10);
    const Values from = values(10, member.rank, 1);
    Values to(10);
    hocketComm_t half = nullptr;
    hocketGroupStart();
    ASSERT_EQ(pass_on(from, to, member), hocketSuccess);
    EXPECT_EQ(hocketCommSplit(member.comm, member.rank, 0, &half, nullptr), hocketSuccess);
    ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(member.comm);
    EXPECT_EQ(to, values(10, 1 - member.rank, 1));
    EXPECT_NE(half, nullptr);
    EXPECT_EQ(hocketCommDestroy(half), hocketSuccess);
  });
}

TEST(RepeatedTransfers, BehindThoseOfAQueue) {
  run_threads(2, [](Member& member) {
    pass_on_thrice(member, 10);
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    for (int round = 0; round < 20; ++round) {
      std::array<Values, 3> from, to;
      for (int i = 0; i < 3; ++i) {
        const auto at = static_cast<size_t>(i);
        from[at] = values(10, 0, 3 * round + i);
        to[at] = Values(10);
        const hocketStream_t stream = i < 2 ? queue : nullptr;
        ASSERT_EQ(member.rank == 0 ? send(from[at], 1, member.comm, stream) : receive(to[at], 0, member.comm, stream),
                  hocketSuccess)
            << hocketGetLastError(member.comm);
      }
      ASSERT_EQ(hocketQueueSynchronize(queue), hocketSuccess);
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(to[i], member.rank == 1 ? from[i] : Values(10));
    }
    hocketQueueDestroy(queue);
  });
}

TEST(RepeatedTransfers, AreNotMadeWhereTheirTimeIsAsked) {
  run_threads(2, [](Member& member) {
    pass_on_thrice(member, 10);
    const Values from = values(10, member.rank, 5);
    Values to(10);
    hocketGroupStart();
    EXPECT_EQ(send(from, 1 - member.rank, member.comm), hocketSuccess);
    EXPECT_EQ(receive(to, 1 - member.rank, member.comm), hocketSuccess);
    hocketSimInfo_t info = HOCKET_SIM_INFO_INITIALIZER;
    ASSERT_EQ(hocketGroupSimulateEnd(&info), hocketSuccess);
    EXPECT_GT(info.estimatedTime, 0);
    EXPECT_EQ(to, Values(10));
    ASSERT_EQ(pass_on(from, to, member), hocketSuccess);
    EXPECT_EQ(to, values(10, 1 - member.rank, 5));
  });
}

TEST(RepeatedTransfers, OfACommunicatorThatIsAbortedMeanwhileFail) {
  std::barrier<> both(2);
  run_threads(2, [&](Member& member) {
    pass_on_thrice(member, 10);
    both.arrive_and_wait();
    if (member.rank == 0) {
      const Values from(10);
      hocketGroupStart();
      EXPECT_EQ(send(from, 1, member.comm), hocketSuccess);
      EXPECT_EQ(hocketCommAbort(member.comm), hocketSuccess);
      expect_error(hocketGroupEnd(), hocketInvalidArgument, nullptr,
                   {"destroyed or aborted before the end of the group"});
    } else {
      Values to(10);
      expect_error(receive(to, 0, member.comm), hocketRemoteError, member.comm, {"rank 0 aborted the communicator"});
      EXPECT_EQ(hocketCommAbort(member.comm), hocketSuccess);
    }
    member.comm = nullptr;
  });
}

// While it waits there.
TEST(RepeatedTransfers, TellOfAnAbortByAnotherThread) {
  std::barrier<> both(2);
  run_threads(2, [&](Member& member) {
    pass_on_thrice(member, 10);
    both.arrive_and_wait();
    if (member.rank == 0) {
      Values to(10);
      std::thread other([comm = member.comm] {
        std::this_thread::sleep_for(std::chrono::microseconds(60));
        EXPECT_EQ(hocketCommAbort(comm), hocketSuccess);
      });
      hocketGroupStart();
      hocketRecv(to.data(), to.size(), hocketInt32, 1, member.comm, nullptr);
      EXPECT_NE(hocketGroupEnd(), hocketSuccess);
      other.join();
    } else {
      hocketResult_t state = hocketSuccess;
      while (state == hocketSuccess) hocketCommGetAsyncError(member.comm, &state);
      EXPECT_EQ(state, hocketRemoteError);
      EXPECT_EQ(hocketCommAbort(member.comm), hocketSuccess);
    }
    member.comm = nullptr;
  });
}

// Of all calls of a group, or of none.
TEST(RepeatedTransfers, AreNotMadeWhereAnotherCommunicatorOfTheGroupIsAborted) {
  run_threads(2, [](Member& member) {
    hocketComm_t other = nullptr;
    ASSERT_EQ(hocketCommSplit(member.comm, 0, member.rank, &other, nullptr), hocketSuccess);
    pass_on_thrice(member, 10);
    pass_on_thrice({member.rank, member.ranks, other}, 10);
    ASSERT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    if (member.rank == 0) {
      hocketGroupStart();
      EXPECT_EQ(send(Values(10, 42), 1, member.comm), hocketSuccess);
      EXPECT_EQ(send(Values(10, 42), 1, other), hocketSuccess);
      EXPECT_EQ(hocketCommAbort(other), hocketSuccess);
      expect_error(hocketGroupEnd(), hocketInvalidArgument, nullptr,
                   {"destroyed or aborted before the end of the group"});
    }
    Values to(10);
    ASSERT_EQ(pass_on(Values(10, 43), to, member), hocketSuccess) << hocketGetLastError(member.comm);
    EXPECT_EQ(to, Values(10, 43));
    if (member.rank == 1) hocketCommAbort(other);
  });
}

TEST(RepeatedTransfers, OfAllRanksOnOneThread) {
  constexpr size_t kRanks = 3;
  std::array<hocketComm_t, kRanks> comms{};
  ASSERT_EQ(hocketCommInitAll(comms.data(), kRanks, nullptr), hocketSuccess);
  for (int round = 0; round < 20; ++round) {
    std::array<Values, kRanks> from, to;
    hocketGroupStart();
    for (size_t rank = 0; rank < kRanks; ++rank) {
      const Member member{static_cast<int>(rank), kRanks, comms[rank]};
      from[rank] = values(10, member.rank, round);
      to[rank] = Values(10);
      EXPECT_EQ(pass_on(from[rank], to[rank], member), hocketSuccess);
    }
    ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
    for (size_t rank = 0; rank < kRanks; ++rank) ASSERT_EQ(to[rank], from[(rank + kRanks - 1) % kRanks]);
  }
  for (const hocketComm_t comm : comms) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
}

TEST(RepeatedTransfers, CheckTheirBuffersAtOnce) {
  run_threads(2, [](Member& member) {
    pass_on_thrice(member, 10);
    hocketGroupStart();
    expect_error(hocketSend(nullptr, 10, hocketInt32, 1 - member.rank, member.comm, nullptr), hocketInvalidArgument,
                 member.comm, {"sendbuff"});
    EXPECT_EQ(hocketGroupEnd(), hocketInvalidArgument);
    pass_on_thrice(member, 10);
  });
}

// One side is a repeat.
void expect_told(bool grouped, size_t sent, size_t received) {
  run_threads(2, [=](Member& member) {
    pass_on_thrice(member, 10);
    const Values from(sent);
    Values to(received);
    Values right(10);
    if (grouped) hocketGroupStart();
    hocketResult_t result = member.rank == 0 ? send(from, 1, member.comm) : receive(to, 0, member.comm);
    if (grouped) result = hocketGroupEnd();
    // A small message may be sent before it is found not to fit.
    if (result == hocketSuccess) result = receive(right, 1 - member.rank, member.comm);
    expect_error(result, hocketInvalidUsage, member.comm,
                 {"rank 1: recv(count " + std::to_string(received) + ", int32, from rank 0)",
                  "send(count " + std::to_string(sent) + ", int32, to rank 1)"});
  });
}

TEST(RepeatedTransfers, ThatDoNotFitAreTold) {
  for (const bool grouped : {false, true}) {
    expect_told(grouped, 10, 11);
    expect_told(grouped, 11, 10);
  }
}

TEST(RepeatedTransfers, NameWhoDoesNotCome) {
  run_threads(
      2,
      [](Member& member) {
        pass_on_thrice(member, 10);
        Values to(10);
        if (member.rank == 1) {
          hocketResult_t state = hocketSuccess;
          while (state == hocketSuccess) hocketCommGetAsyncError(member.comm, &state);
          EXPECT_EQ(state, hocketTimeout);
          return;
        }
        hocketGroupStart();
        EXPECT_EQ(receive(to, 1, member.comm), hocketSuccess);
        expect_error(hocketGroupEnd(), hocketTimeout, member.comm,
                     {"rank 0: recv(count 10, int32, from rank 1) #4", "rank 1 has not come within 300 ms"});
      },
      config_with_timeout(300));
}

}  // namespace
}  // namespace hocket::test
