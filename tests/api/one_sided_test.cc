// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One-sided calls: put, get, signals and atomics, where memory is shared and where the service thread works.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

constexpr Seconds kLimit{60};

// A window of 32-bit integers.
class Window {
 public:
  Window(hocketComm_t comm, size_t count, bool shared = true) : comm_(comm) {
    if (shared) {
      EXPECT_EQ(hocketMemAlloc(&memory_, count * sizeof(int32_t)), hocketSuccess);
    } else {
      plain_.resize(count);
      memory_ = plain_.data();
    }
    EXPECT_EQ(hocketCommWindowRegister(comm, memory_, count * sizeof(int32_t), &window_, HOCKET_WIN_DEFAULT),
              hocketSuccess);
  }
  ~Window() {
    EXPECT_EQ(hocketCommWindowDeregister(comm_, window_), hocketSuccess);
    if (plain_.empty()) {
      EXPECT_EQ(hocketMemFree(memory_), hocketSuccess);
    }
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  int32_t* data() const { return static_cast<int32_t*>(memory_); }
  hocketWindow_t handle() const { return window_; }

 private:
  hocketComm_t comm_;
  std::vector<int32_t> plain_;
  void* memory_ = nullptr;
  hocketWindow_t window_ = nullptr;
};

hocketResult_t wait_for(const Member& member, int peer, int count, int signal = 0) {
  const hocketWaitSignalDesc_t one{count, peer, signal, 0};
  return hocketWaitSignal(1, &one, member.comm, nullptr);
}

Processes::Settings told(const std::string& transports, const std::vector<std::string>& arguments = {}) {
  Processes::Settings settings;
  settings.environment = {"HOCKET_TRANSPORTS=" + transports};
  settings.arguments = arguments;
  return settings;
}

void barrier(const Member& member) { ASSERT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess); }

int32_t value(int rank, size_t index, int round) { return static_cast<int32_t>(index * 3) + 1000 * rank + 17 * round; }

// Each rank puts into the next one's window, signals, and reads what it was sent and what it sent; again and again.
void ring_of_puts(const Member& member, bool shared) {
  const int next = (member.rank + 1) % member.ranks;
  const int previous = (member.rank + member.ranks - 1) % member.ranks;
  constexpr size_t kMost = 50'000;  // more than one piece
  const Window window(member.comm, kMost, shared);
  std::vector<int32_t> send(kMost);
  std::vector<int32_t> back(kMost);
  int round = 0;
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{8192}, size_t{8193}, kMost - 3}) {
    ++round;
    for (size_t i = 0; i < count; ++i) send[i] = value(member.rank, i, round);
    ASSERT_EQ(
        hocketPutSignal(send.data(), count, hocketInt32, next, window.handle(), 12, 0, 0, 0, member.comm, nullptr),
        hocketSuccess)
        << hocketGetLastError(member.comm);
    ASSERT_EQ(wait_for(member, previous, 1), hocketSuccess) << hocketGetLastError(member.comm);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(window.data()[3 + i], value(previous, i, round)) << i;
    ASSERT_EQ(hocketGet(back.data(), count, hocketInt32, next, window.handle(), 12, member.comm, nullptr),
              hocketSuccess);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(back[i], send[i]) << i;
    // Nobody writes the next round before everybody has read this one.
    ASSERT_EQ(hocketSignal(previous, 1, 0, 0, member.comm, nullptr), hocketSuccess);
    ASSERT_EQ(wait_for(member, next, 1, 1), hocketSuccess);
  }
  barrier(member);
}

TEST(OneSided, PutSignalGetBetweenThreads) {
  run_threads(3, [](Member& member) { ring_of_puts(member, true); });
}

TEST(OneSided, MemoryThatNobodyCanMap) {
  run_threads(3, [](Member& member) { ring_of_puts(member, false); });
}

const Role ring("puts", [](const Part& part) {
  const Member member = part.join();
  ring_of_puts(member, part.arguments.front() == "shared");
  EXPECT_EQ(hocketCommDestroy(member.comm), hocketSuccess);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST(OneSided, BetweenProcesses) {
  for (const char* transports : {"shm", "tcp"}) {
    for (const char* memory : {"shared", "plain"}) {
      SCOPED_TRACE(std::string(transports) + ", " + memory);
      expect_success("puts", 3, told(transports, {memory}), kLimit);
    }
  }
}

// All ranks add to one counter, and each number is given once.
void count_together(const Member& member, bool shared) {
  constexpr int kEach = 200;
  const Window window(member.comm, 8, shared);
  const auto at = [&](int peer, int64_t operand, hocketRedOp_t op) {
    int64_t before = -1;
    EXPECT_EQ(hocketFetchOp(&operand, &before, hocketInt64, op, peer, window.handle(), 8, member.comm, nullptr),
              hocketSuccess)
        << hocketGetLastError(member.comm);
    return before;
  };
  int64_t sum = 0;
  for (int i = 0; i < kEach; ++i) sum += at(0, 1, hocketSum);
  barrier(member);
  int64_t all = 0;
  ASSERT_EQ(hocketAllReduce(&sum, &all, 1, hocketInt64, hocketSum, member.comm, nullptr), hocketSuccess);
  const int64_t total = int64_t{kEach} * member.ranks;
  EXPECT_EQ(all, total * (total - 1) / 2);
  EXPECT_EQ(at(0, 0, hocketSum), total);
  barrier(member);
  // The one whose turn it is swaps itself in, all others fail.
  for (int64_t turn = 0; turn < member.ranks; ++turn) {
    const int64_t compare = total + turn;
    const int64_t desired = compare + 1;
    int64_t before = -1;
    ASSERT_EQ(hocketCompareSwap(turn == member.rank ? &compare : &turn, &desired, &before, hocketInt64, 0,
                                window.handle(), 8, member.comm, nullptr),
              hocketSuccess);
    EXPECT_TRUE(before == compare || before == desired) << before;
    barrier(member);
  }
  EXPECT_EQ(at(0, 0, hocketBitOr), total + member.ranks);
  barrier(member);
  at(0, -1 - member.rank, hocketMin);
  barrier(member);
  EXPECT_EQ(at(0, INT64_MIN, hocketMax), -member.ranks);
  barrier(member);
}

TEST(OneSided, AtomicsByThreads) {
  for (const bool shared : {true, false}) {
    run_threads(4, [&](Member& member) { count_together(member, shared); });
  }
}

TEST(OneSided, AtomicsOfFourBytes) {
  run_threads(2, [](Member& member) {
    const Window window(member.comm, 8);
    uint32_t operand = 0xF0F0F0F0u;
    uint32_t before = 1;
    const auto apply = [&](hocketRedOp_t op) {
      EXPECT_EQ(
          hocketFetchOp(&operand, &before, hocketUint32, op, member.rank, window.handle(), 4, member.comm, nullptr),
          hocketSuccess);
      return before;
    };
    EXPECT_EQ(apply(hocketBitOr), 0u);
    operand = 0x0FF0FF00u;
    EXPECT_EQ(apply(hocketBitAnd), 0xF0F0F0F0u);
    EXPECT_EQ(apply(hocketBitXor), 0x00F0F000u);
    EXPECT_EQ(apply(hocketMax), 0x0F000F00u);
    operand = 2;
    EXPECT_EQ(apply(hocketMin), 0x0FF0FF00u);
    EXPECT_EQ(static_cast<uint32_t>(window.data()[1]), 2u);
    EXPECT_EQ(window.data()[0], 0);
    EXPECT_EQ(window.data()[2], 0);
    barrier(member);
  });
}

const Role counting("count", [](const Part& part) {
  const Member member = part.join();
  count_together(member, true);
  EXPECT_EQ(hocketCommDestroy(member.comm), hocketSuccess);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST(OneSided, AtomicsByProcesses) {
  for (const char* transports : {"shm", "tcp"}) {
    expect_success("count", 3, told(transports), kLimit);
  }
}

TEST(OneSided, OnQueuesInOrderAndInGroups) {
  run_threads(2, [](Member& member) {
    const int peer = 1 - member.rank;
    const Window window(member.comm, 4);
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    const hocketStream_t stream = hocketQueueStream(queue);
    int32_t mine = member.rank + 5;
    int32_t sum = 0;
    const hocketWaitSignalDesc_t one{1, peer, 3, 0};
    // The wait stands before the all-reduce that uses what came.
    ASSERT_EQ(hocketPutSignal(&mine, 1, hocketInt32, peer, window.handle(), 0, 3, 0, 0, member.comm, stream),
              hocketSuccess);
    ASSERT_EQ(hocketWaitSignal(1, &one, member.comm, stream), hocketSuccess);
    ASSERT_EQ(hocketAllReduce(window.data(), &sum, 1, hocketInt32, hocketSum, member.comm, stream), hocketSuccess);
    ASSERT_EQ(hocketQueueSynchronize(queue), hocketSuccess);
    EXPECT_EQ(sum, 11);
    EXPECT_EQ(hocketQueueDestroy(queue), hocketSuccess);
    ASSERT_EQ(hocketGroupStart(), hocketSuccess);
    ASSERT_EQ(hocketWaitSignal(1, &one, member.comm, nullptr), hocketSuccess);
    ASSERT_EQ(hocketPut(&mine, 1, hocketInt32, peer, window.handle(), 4, member.comm, nullptr), hocketSuccess);
    ASSERT_EQ(hocketSignal(peer, 3, 0, 0, member.comm, nullptr), hocketSuccess);
    ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(member.comm);
    barrier(member);
    EXPECT_EQ(window.data()[1], peer + 5);
  });
}

TEST(OneSided, WaitsTakeTheirNumberAndNoMore) {
  run_threads(2, [](Member& member) {
    const Window window(member.comm, 1);
    const int peer = 1 - member.rank;
    void* begin = nullptr;
    EXPECT_EQ(hocketWinGetUserPtr(member.comm, window.handle(), &begin), hocketSuccess);
    EXPECT_EQ(begin, window.data());
    expect_error(hocketWinGetUserPtr(member.comm, nullptr, &begin), hocketInvalidArgument, member.comm,
                 {"win: ", "is not registered with rank"});
    for (int i = 0; i < 5; ++i) ASSERT_EQ(hocketSignal(peer, 2, 0, 0, member.comm, nullptr), hocketSuccess);
    ASSERT_EQ(hocketSignal(member.rank, 7, 0, 0, member.comm, nullptr), hocketSuccess);
    const std::vector<hocketWaitSignalDesc_t> several{{3, peer, 2, 0}, {1, member.rank, 7, 0}, {0, peer, 5, 0}};
    ASSERT_EQ(hocketWaitSignal(3, several.data(), member.comm, nullptr), hocketSuccess);
    ASSERT_EQ(wait_for(member, peer, 2, 2), hocketSuccess);
    barrier(member);
  });
}

// A window is used by a rank that has it before its peer does.
TEST(OneSided, WaitsForThePeerToRegister) {
  for (const bool shared : {true, false}) {
    run_threads(2, [&](Member& member) {
      if (member.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const Window window(member.comm, 4, shared);
      const int32_t mine = 9;
      if (member.rank == 0) {
        ASSERT_EQ(hocketPut(&mine, 1, hocketInt32, 1, window.handle(), 0, member.comm, nullptr), hocketSuccess);
      }
      barrier(member);
      if (member.rank == 1) {
        EXPECT_EQ(window.data()[0], 9);
      }
      barrier(member);
    });
  }
}

TEST(OneSided, BadArguments) {
  for (const bool shared : {true, false}) {
    run_threads(2, [&](Member& member) {
      int64_t data[2] = {1, 2};
      const hocketComm_t comm = member.comm;
      const auto refused = [&](hocketResult_t result, const std::vector<std::string>& parts) {
        expect_error(result, hocketInvalidArgument, comm, parts);
      };
      const hocketWaitSignalDesc_t one{1, 0, 0, 0};
      expect_error(hocketWaitSignal(1, &one, comm, nullptr), hocketInvalidUsage, comm, {"registered none"});
      refused(hocketSignal(1, 0, 0, 0, comm, nullptr), {"signal 0 to rank 1", "registered none"});
      const Window window(comm, 4, shared);
      const hocketWindow_t win = window.handle();
      barrier(member);
      const int peer = 1 - member.rank;
      refused(hocketPut(data, 2, hocketInt64, 2, win, 0, comm, nullptr), {"put", "peer: 2 is not among 2 ranks"});
      refused(hocketPut(data, 1, hocketInt64, peer, nullptr, 0, comm, nullptr), {"no such window"});
      refused(hocketPut(data, 1, hocketInt64, peer, reinterpret_cast<hocketWindow_t>(uintptr_t{77}), 0, comm, nullptr),
              {"window 77", "no such window"});
      refused(hocketPut(data, 2, hocketInt64, peer, win, 1, comm, nullptr),
              {"put (window 1, offset 1, 16 bytes) at rank " + std::to_string(peer), "has 16 bytes"});
      refused(hocketGet(data, 1, hocketInt64, peer, win, SIZE_MAX, comm, nullptr), {"has 16 bytes"});
      refused(hocketGet(nullptr, 1, hocketInt64, peer, win, 0, comm, nullptr), {"localbuff is NULL"});
      refused(hocketGet(data, SIZE_MAX, hocketInt64, peer, win, 0, comm, nullptr), {"count: ", "2^62 bytes"});
      refused(hocketGet(data, 1, hocketNumTypes, peer, win, 0, comm, nullptr), {"datatype"});
      refused(hocketPutSignal(data, 1, hocketInt64, peer, win, 0, 8, 0, 0, comm, nullptr), {"sigIdx: 8", "0 to 7"});
      refused(hocketPutSignal(data, 1, hocketInt64, peer, win, 0, 0, 1, 0, comm, nullptr), {"ctx: 1"});
      refused(hocketSignal(peer, 0, 0, 4, comm, nullptr), {"flags: 0x4"});
      refused(hocketFetchOp(data, data, hocketInt64, hocketSum, peer, win, 4, comm, nullptr), {"no address of such"});
      refused(hocketFetchOp(data, data, hocketFloat, hocketSum, peer, win, 0, comm, nullptr), {"datatype: float32"});
      refused(hocketFetchOp(nullptr, data, hocketInt64, hocketSum, peer, win, 0, comm, nullptr), {"operand is NULL"});
      refused(hocketCompareSwap(nullptr, data, data, hocketInt64, peer, win, 0, comm, nullptr), {"compare is NULL"});
      expect_error(hocketFetchOp(data, data, hocketInt64, hocketProd, peer, win, 0, comm, nullptr),
                   hocketInvalidArgument, nullptr, {"op: it must be sum"});
      refused(hocketWaitSignal(0, &one, comm, nullptr), {"nDesc: 0"});
      const hocketWaitSignalDesc_t bad{-1, 0, 0, 0};
      refused(hocketWaitSignal(1, &bad, comm, nullptr), {"signalDescs[0]: opCnt: -1"});
      // Nothing of that has harmed anybody.
      EXPECT_EQ(hocketPut(data, 2, hocketInt64, peer, win, 0, comm, nullptr), hocketSuccess);
      barrier(member);
      EXPECT_EQ(window.data()[0], 1);
      barrier(member);
    });
  }
}

TEST(OneSided, WhoNeverSignalsIsNamed) {
  run_threads(
      2,
      [](Member& member) {
        const Window window(member.comm, 4);
        barrier(member);
        if (member.rank == 0) {
          expect_error(wait_for(member, 1, 2, 4), hocketTimeout, member.comm,
                       {"rank 0: wait_signal (0 of 2 signals 4 of rank 1 have come)", "0.3 s"});
        }
        // The failure is everybody's.
        hocketResult_t state = hocketSuccess;
        while (state == hocketSuccess) {
          ASSERT_EQ(hocketCommGetAsyncError(member.comm, &state), hocketSuccess);
          std::this_thread::yield();
        }
        EXPECT_EQ(state, hocketTimeout);
      },
      config_with_timeout(300));
}

TEST(OneSided, WhoHasLeftIsNamed) {
  run_threads(2, [](Member& member) {
    {
      const Window window(member.comm, 4);
      barrier(member);
      if (member.rank == 0) {
        EXPECT_EQ(wait_for(member, 1, 1), hocketSuccess);  // raised before it left
        expect_error(wait_for(member, 1, 1), hocketRemoteError, member.comm, {"wait_signal", "rank 1 has left"});
      } else {
        EXPECT_EQ(hocketSignal(0, 0, 0, 0, member.comm, nullptr), hocketSuccess);
      }
    }
    hocketCommDestroy(std::exchange(member.comm, nullptr));
  });
}

// Neither near nor far, where it goes in pieces.
TEST(OneSided, WhatDoesNotFitWhollyIsNotWritten) {
  for (const bool shared : {true, false}) {
    run_threads(2, [&](Member& member) {
      constexpr size_t kCount = 25'000;
      const Window window(member.comm, kCount, shared);
      const std::vector<int32_t> ones(2 * kCount, 1);
      barrier(member);
      expect_error(
          hocketPut(ones.data(), 2 * kCount, hocketInt32, 1 - member.rank, window.handle(), 0, member.comm, nullptr),
          hocketInvalidArgument, member.comm, {"has 100000 bytes"});
      barrier(member);
      EXPECT_EQ(std::vector<int32_t>(window.data(), window.data() + kCount), std::vector<int32_t>(kCount));
      barrier(member);
    });
  }
}

TEST(OneSided, ShortAccessesFindRoomBesideLongOnes) {
  run_threads(
      2,
      [](Member& member) {
        constexpr size_t kCount = 8 << 20;
        const Window window(member.comm, kCount, false);
        barrier(member);
        if (member.rank == 0) {
          const std::vector<int32_t> data(kCount, 3);
          std::vector<hocketQueue_t> queues(4);
          for (hocketQueue_t& queue : queues) {
            ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
            const size_t count = &queue == &queues.back() ? 1 : kCount;
            ASSERT_EQ(hocketPut(data.data(), count, hocketInt32, 1, window.handle(), 0, member.comm,
                                hocketQueueStream(queue)),
                      hocketSuccess);
          }
          for (const hocketQueue_t queue : queues) {
            EXPECT_EQ(hocketQueueSynchronize(queue), hocketSuccess) << hocketGetLastError(member.comm);
            EXPECT_EQ(hocketQueueDestroy(queue), hocketSuccess);
          }
        }
        barrier(member);
      },
      config_with_timeout(20'000));
}

// As long as some come, others are waited for.
TEST(OneSided, ManySlowSignalsAreWaitedFor) {
  run_threads(
      2,
      [](Member& member) {
        const Window window(member.comm, 1);
        barrier(member);
        if (member.rank == 0) {
          EXPECT_EQ(wait_for(member, 1, 8), hocketSuccess) << hocketGetLastError(member.comm);
        } else {
          for (int i = 0; i < 8; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            ASSERT_EQ(hocketSignal(0, 0, 0, 0, member.comm, nullptr), hocketSuccess);
          }
        }
        barrier(member);
      },
      config_with_timeout(1500));
}

TEST(OneSided, AWrongCallDropsItsGroup) {
  run_threads(2, [](Member& member) {
    const Window window(member.comm, 4);
    barrier(member);
    const int32_t one = 1;
    ASSERT_EQ(hocketGroupStart(), hocketSuccess);
    ASSERT_EQ(hocketPut(&one, 1, hocketInt32, 1 - member.rank, window.handle(), 0, member.comm, nullptr),
              hocketSuccess);
    expect_error(hocketFetchOp(&one, nullptr, hocketInt32, hocketProd, 0, window.handle(), 0, member.comm, nullptr),
                 hocketInvalidArgument, member.comm, {"op: it must be sum"});
    expect_error(hocketGroupEnd(), hocketInvalidArgument, nullptr, {"op: it must be sum"});
    barrier(member);
    EXPECT_EQ(window.data()[0], 0);
    barrier(member);
  });
}

// Ranks on two hosts, of which one never registers.
const Role alone("alone", [](const Part& part) {
  setenv("HOCKET_HOST_ID", std::to_string(part.rank).c_str(), 1);
  const Member member = part.join(config_with_timeout(500));
  if (member.rank == 0) {
    const Window window(member.comm, 4);
    const int32_t one = 1;
    expect_error(hocketPut(&one, 1, hocketInt32, 1, window.handle(), 0, member.comm, nullptr), hocketTimeout,
                 member.comm, {"put (window 1", "nothing came from rank 1 within 0.5 s"});
  }
  hocketResult_t state = hocketSuccess;
  while (state == hocketSuccess) hocketCommGetAsyncError(member.comm, &state);
  EXPECT_EQ(state, hocketTimeout);
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST(OneSided, WhoNeverRegistersIsNamed) { expect_success("alone", 2, told("tcp"), kLimit); }

// A peer may take back memory of its own at any time: then access fails, and nothing is written there.
TEST(OneSided, ADeregisteredWindowIsNotWritten) {
  run_threads(2, [](Member& member) {
    std::vector<int32_t> memory(4);
    hocketWindow_t window = nullptr;
    ASSERT_EQ(hocketCommWindowRegister(member.comm, memory.data(), 16, &window, HOCKET_WIN_DEFAULT), hocketSuccess);
    barrier(member);
    const int32_t mine = 1;
    if (member.rank == 1) {
      EXPECT_EQ(hocketCommWindowDeregister(member.comm, window), hocketSuccess);
    }
    barrier(member);
    if (member.rank == 0) {
      expect_error(hocketPut(&mine, 1, hocketInt32, 1, window, 0, member.comm, nullptr), hocketInvalidArgument,
                   member.comm, {"put (window 1, offset 0, 4 bytes) at rank 1", "deregistered"});
      EXPECT_EQ(hocketCommWindowDeregister(member.comm, window), hocketSuccess);
    }
    barrier(member);
    EXPECT_EQ(memory, (std::vector<int32_t>(4)));
  });
}

const Role killed("dies", [](const Part& part) {
  const Member member = part.join();
  {
    const Window window(member.comm, 4, part.arguments.front() == "shared");
    if (member.rank == 1) {
      EXPECT_EQ(wait_for(member, 0, 1), hocketSuccess);
      std::_Exit(0);
    }
    EXPECT_EQ(hocketSignal(1, 0, 0, 0, member.comm, nullptr), hocketSuccess);
    expect_error(wait_for(member, 1, 1), hocketRemoteError, member.comm, {"rank 1"});
    int32_t mine = 0;
    EXPECT_EQ(hocketPut(&mine, 1, hocketInt32, 1, window.handle(), 0, member.comm, nullptr), hocketRemoteError);
  }
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST(OneSided, WhoDiesIsNamed) {
  for (const char* memory : {"shared", "plain"}) expect_success("dies", 2, told("shm", {memory}), kLimit);
}

}  // namespace
}  // namespace hocket::test
