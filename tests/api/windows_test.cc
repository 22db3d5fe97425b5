// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Registered memory: collectives that read out of peers' buffers give what they should, whoever the peers are; whatever
// cannot be a window goes the ordinary way; who breaks the rules is told.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <latch>
#include <span>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;

constexpr Seconds kLimit{60};

constexpr size_t kPageInts = 4096 / sizeof(int32_t);

// Two buffers of ints in memory of hocketMemAlloc, registered together; each begins at a page.
class Registered {
 public:
  Registered(const Member& member, size_t count, bool shared = true)
      : comm_(member.comm), count_((count + kPageInts - 1) / kPageInts * kPageInts) {
    const size_t bytes = 2 * count_ * sizeof(int32_t);
    if (shared) {
      EXPECT_EQ(hocketMemAlloc(&memory_, bytes), hocketSuccess);
    } else {
      plain_.resize(2 * count_);
      memory_ = plain_.data();
    }
    EXPECT_EQ(hocketCommRegister(comm_, memory_, bytes, &handle_), hocketSuccess) << hocketGetLastError(comm_);
  }
  ~Registered() {
    EXPECT_EQ(hocketCommDeregister(comm_, handle_), hocketSuccess);
    if (plain_.empty()) {
      EXPECT_EQ(hocketMemFree(memory_), hocketSuccess);
    }
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  int32_t* send() const { return static_cast<int32_t*>(memory_); }
  int32_t* recv() const { return send() + count_; }

 private:
  hocketComm_t comm_;
  size_t count_;
  std::vector<int32_t> plain_;
  void* memory_ = nullptr;
  void* handle_ = nullptr;
};

int32_t value(int rank, size_t index, int round) {
  return static_cast<int32_t>((static_cast<size_t>(rank) * 31 + index * 7 + static_cast<size_t>(round)) % 1009);
}

void fill(int32_t* data, size_t count, int rank, int round) {
  for (size_t i = 0; i < count; ++i) data[i] = value(rank, i, round);
}

int32_t sum(int ranks, size_t index, int round) {
  int32_t total = 0;
  for (int rank = 0; rank < ranks; ++rank) total += value(rank, index, round);
  return total;
}

template <typename Expected>
void expect_all(const char* what, const int32_t* data, size_t count, const Expected& expected) {
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], expected(i)) << what << " element " << i << " of " << count;
}

// One collective with `count` elements per block, out of place or in place; data change before every call and right
// after it.
struct Round {
  const Member& member;
  const Registered& memory;
  size_t count;
  int number;

  void all_reduce(bool in_place) const {
    int32_t* from = in_place ? memory.recv() : memory.send();
    fill(from, count, member.rank, number);
    ASSERT_EQ(hocketAllReduce(from, memory.recv(), count, hocketInt32, hocketSum, member.comm, nullptr), hocketSuccess);
    expect_all("all_reduce", memory.recv(), count, [&](size_t i) { return sum(member.ranks, i, number); });
    spoil();
  }

  void reduce_scatter(bool in_place) const {
    const size_t own = static_cast<size_t>(member.rank) * count;
    int32_t* into = in_place ? memory.send() + own : memory.recv();
    fill(memory.send(), count * static_cast<size_t>(member.ranks), member.rank, number);
    ASSERT_EQ(hocketReduceScatter(memory.send(), into, count, hocketInt32, hocketSum, member.comm, nullptr),
              hocketSuccess);
    expect_all("reduce_scatter", into, count, [&](size_t i) { return sum(member.ranks, own + i, number); });
    spoil();
  }

  void all_gather(bool in_place) const {
    int32_t* from = in_place ? memory.recv() + static_cast<size_t>(member.rank) * count : memory.send();
    fill(from, count, member.rank, number);
    ASSERT_EQ(hocketAllGather(from, memory.recv(), count, hocketInt32, member.comm, nullptr), hocketSuccess);
    expect_all("all_gather", memory.recv(), count * static_cast<size_t>(member.ranks),
               [&](size_t i) { return value(static_cast<int>(i / count), i % count, number); });
    spoil();
  }

  void all_to_all() const {
    fill(memory.send(), count * static_cast<size_t>(member.ranks), member.rank, number);
    ASSERT_EQ(hocketAllToAll(memory.send(), memory.recv(), count, hocketInt32, member.comm, nullptr), hocketSuccess);
    const size_t own = static_cast<size_t>(member.rank) * count;
    expect_all("all_to_all", memory.recv(), count * static_cast<size_t>(member.ranks),
               [&](size_t i) { return value(static_cast<int>(i / count), own + i % count, number); });
    spoil();
  }

  void broadcast(bool in_place) const {
    const int root = number % member.ranks;
    int32_t* from = in_place ? memory.recv() : memory.send();
    if (member.rank == root) fill(from, count, root, number);
    ASSERT_EQ(hocketBroadcast(from, memory.recv(), count, hocketInt32, root, member.comm, nullptr), hocketSuccess);
    expect_all("broadcast", memory.recv(), count, [&](size_t i) { return value(root, i, number); });
    spoil();
  }

  void reduce() const {
    const int root = number % member.ranks;
    fill(memory.send(), count, member.rank, number);
    int32_t* into = member.rank == root ? memory.recv() : nullptr;
    ASSERT_EQ(hocketReduce(memory.send(), into, count, hocketInt32, hocketSum, root, member.comm, nullptr),
              hocketSuccess);
    if (into != nullptr) expect_all("reduce", into, count, [&](size_t i) { return sum(member.ranks, i, number); });
    spoil();
  }

  // A peer that still reads finds this.
  void spoil() const {
    const size_t all = count * static_cast<size_t>(member.ranks);
    std::fill_n(memory.send(), all, -1);
    std::fill_n(memory.recv(), all, -1);
  }
};

constexpr std::array<size_t, 4> kAnyCounts = {1, 777, 40000, 300001};
constexpr std::array<size_t, 4> kWholePages = {kPageInts, 2 * kPageInts, 40 * kPageInts, 293 * kPageInts};

void run_all_collectives(const Member& member, bool shared, std::span<const size_t> counts = kAnyCounts) {
  const Registered memory(member, counts.back() * static_cast<size_t>(member.ranks), shared);
  int number = 0;
  for (const size_t count : counts) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Round round{member, memory, count, ++number};
      for (const bool in_place : {false, true}) {
        round.all_reduce(in_place);
        round.reduce_scatter(in_place);
        round.all_gather(in_place);
        round.broadcast(in_place);
      }
      round.all_to_all();
      round.reduce();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

int exit_status() { return testing::Test::HasFailure() ? 1 : 0; }

const Role all_collectives("all_collectives", [](const Part& part) {
  const Member member = part.join();
  run_all_collectives(member, part.arguments.at(0) != "plain",
                      part.arguments.at(0) == "pages" ? std::span(kWholePages) : std::span(kAnyCounts));
  hocketCommDestroy(member.comm);
  return exit_status();
});

class Windows : public testing::TestWithParam<int> {};

// The algorithm is forced: where the memory were no window, the calls would fail.
TEST_P(Windows, BetweenProcesses) {
  expect_success("all_collectives", GetParam(), {{"HOCKET_ALGORITHM=window"}, {"shared"}, {}, true}, kLimit);
}

TEST_P(Windows, BetweenProcessesThatWriteIntoEachOthers) {
  expect_success("all_collectives", GetParam(), {{"HOCKET_ALGORITHM=all_reduce=window_put"}, {"pages"}, {}, true},
                 kLimit);
}

TEST_P(Windows, BetweenThreads) {
  run_threads(GetParam(), [](Member& member) {
    run_all_collectives(member, true);
    run_all_collectives(member, true, kWholePages);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Windows, testing::Values(1, 2, 3, 4, 7));

TEST(Registration, OfPlainMemoryIsHarmless) {
  expect_success("all_collectives", 3, {{}, {"plain"}, {}, true}, kLimit);
  run_threads(2, [](Member& member) { run_all_collectives(member, false); });
}

TEST(Registration, OfPlainMemoryOnOneRankIsHarmless) {
  run_threads(3, [](Member& member) { run_all_collectives(member, member.rank != 1); });
}

TEST(Registration, WithoutTransportsThroughMemoryIsHarmless) {
  expect_success("all_collectives", 2, {{"HOCKET_TRANSPORTS=tcp"}, {"shared"}, {}, true}, kLimit);
}

const Role plain_by_window("plain_by_window", [](const Part& part) {
  const Member member = part.join();
  std::vector<int32_t> data(1000);
  const hocketResult_t result =
      hocketAllReduce(data.data(), data.data(), data.size(), hocketInt32, hocketSum, member.comm, nullptr);
  std::printf("%s\n", hocketGetLastError(member.comm));
  hocketCommDestroy(member.comm);
  return result == hocketInvalidUsage ? 0 : 1;
});

TEST(Registration, IsNeededWhereTheAlgorithmIsForced) {
  Processes processes("plain_by_window", 2, {{"HOCKET_ALGORITHM=window"}, {}, {}, true});
  for (const Processes::End& end : processes.finish(kLimit)) {
    EXPECT_EQ(end.status, 0) << end.output;
    EXPECT_THAT(end.output,
                HasSubstr("all_reduce by window is not possible for 2 ranks: it needs all send buffers in a window"));
  }
}

hocketResult_t all_reduce_of_all(const Member& member, size_t count) {
  void* memory = nullptr;
  void* handle = nullptr;
  EXPECT_EQ(hocketMemAlloc(&memory, count * sizeof(int32_t)), hocketSuccess);
  EXPECT_EQ(hocketCommRegister(member.comm, memory, count * sizeof(int32_t), &handle), hocketSuccess);
  const hocketResult_t result = hocketAllReduce(memory, memory, count, hocketInt32, hocketSum, member.comm, nullptr);
  EXPECT_EQ(hocketCommDeregister(member.comm, handle), hocketSuccess);
  EXPECT_EQ(hocketMemFree(memory), hocketSuccess);
  return result;
}

const Role parts_of_pages("parts_of_pages", [](const Part& part) {
  const Member member = part.join();
  {
    const Registered memory(member, 2 * kPageInts);
    const auto all_reduce = [&](size_t from, size_t count) {
      int32_t* data = memory.send() + from;
      const hocketResult_t result = hocketAllReduce(data, data, count, hocketInt32, hocketSum, member.comm, nullptr);
      if (result != hocketSuccess) std::printf("%s\n", hocketGetLastError(member.comm));
      return result;
    };
    EXPECT_EQ(all_reduce(0, kPageInts), hocketSuccess);
    EXPECT_EQ(all_reduce(kPageInts, 3 * kPageInts), hocketSuccess);
    EXPECT_EQ(all_reduce(kPageInts, kPageInts - 1), hocketInvalidUsage);
    EXPECT_EQ(all_reduce(1, kPageInts - 1), hocketInvalidUsage);
  }
  EXPECT_EQ(all_reduce_of_all(member, kPageInts + 7), hocketSuccess)
      << "what is allocated has its last page for itself";
  hocketCommDestroy(member.comm);
  return exit_status();
});

// Whoever else lies on a page could not be told from what a late peer writes there.
TEST(Registration, OfWholePagesAloneLetsOthersWrite) {
  Processes processes("parts_of_pages", 2, {{"HOCKET_ALGORITHM=all_reduce=window_put"}, {}, {}, true});
  for (const Processes::End& end : processes.finish(kLimit)) {
    EXPECT_EQ(end.status, 0) << end.output;
    EXPECT_THAT(end.output, HasSubstr("it needs receive buffers that fill whole pages of a window"));
  }
}

// Of two ranks: rank 1 is stuck in its own part of a sum when rank 0 gives up, and goes on only when rank 0 uses its
// memory for something else.
struct Stuck {
  int rank = 0;
  std::latch* gave_up = nullptr;
};

void add_late(const void* in, void* inout, size_t count, hocketDataType_t, void* context) {
  const auto* stuck = static_cast<const Stuck*>(context);
  if (stuck->rank == 1) stuck->gave_up->wait();
  const auto* from = static_cast<const int32_t*>(in);
  auto* to = static_cast<int32_t*>(inout);
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

constexpr size_t kLateCount = 64 * kPageInts;

using Late = hocketResult_t (*)(const Member&, const Registered&, hocketRedOp_t);

hocketResult_t all_reduce_in_place(const Member& member, const Registered& memory, hocketRedOp_t op) {
  return hocketAllReduce(memory.recv(), memory.recv(), kLateCount, hocketInt32, op, member.comm, nullptr);
}
hocketResult_t all_reduce_apart(const Member& member, const Registered& memory, hocketRedOp_t op) {
  return hocketAllReduce(memory.send(), memory.recv(), kLateCount, hocketInt32, op, member.comm, nullptr);
}
hocketResult_t reduce_scatter(const Member& member, const Registered& memory, hocketRedOp_t op) {
  return hocketReduceScatter(memory.send(), memory.recv(), kLateCount / 2, hocketInt32, op, member.comm, nullptr);
}

// To rank 1 all has come that its plan asks for, but what it reads of rank 0 may be something else by then.
void call_late(const Member& member, const Registered& memory, Stuck& stuck, Late call) {
  hocketRedOp_t op{};
  ASSERT_EQ(hocketRedOpCreate(&op, add_late, &stuck, 1, member.comm), hocketSuccess);
  std::fill_n(memory.send(), 2 * kLateCount, 1);
  const hocketResult_t result = call(member, memory, op);
  if (member.rank == 0) {
    EXPECT_EQ(result, hocketTimeout) << hocketGetLastError(member.comm);
  } else {
    EXPECT_NE(result, hocketSuccess);
  }
}

class LateRank : public testing::TestWithParam<Late> {};

TEST_P(LateRank, NeitherWritesIntoAFailedCallsBuffersNorEndsWell) {
  std::latch gave_up{1};
  std::latch ended{1};
  run_threads(
      2,
      [&](Member& member) {
        Stuck stuck{member.rank, &gave_up};
        const Registered memory(member, kLateCount);
        call_late(member, memory, stuck, GetParam());
        if (member.rank == 1) return ended.count_down();
        std::fill_n(memory.recv(), kLateCount, 77);
        std::fill_n(memory.send(), kLateCount, 78);
        gave_up.count_down();
        ended.wait();
        expect_all("kept", memory.recv(), kLateCount, [](size_t) { return 77; });
        expect_all("kept", memory.send(), kLateCount, [](size_t) { return 78; });
      },
      config_with_timeout(1000));
}

INSTANTIATE_TEST_SUITE_P(Calls, LateRank, testing::Values(all_reduce_in_place, all_reduce_apart, reduce_scatter));

// The peers of another communicator would go on working on the pages that were given up.
TEST(Registration, ThatIsTakenBackFailsOtherCommunicatorsThere) {
  std::latch gave_up{1};
  run_threads(
      2,
      [&](Member& member) {
        hocketComm_t other = nullptr;
        ASSERT_EQ(hocketCommSplit(member.comm, 0, member.rank, &other, nullptr), hocketSuccess);
        Stuck stuck{member.rank, &gave_up};
        {
          const Registered memory(member, kLateCount);
          void* handle = nullptr;
          ASSERT_EQ(hocketCommRegister(other, memory.recv(), kLateCount * sizeof(int32_t), &handle), hocketSuccess);
          call_late(member, memory, stuck, all_reduce_in_place);
          if (member.rank == 0) gave_up.count_down();
          int32_t* data = memory.recv();
          expect_error(hocketAllReduce(data, data, kLateCount, hocketInt32, hocketSum, other, nullptr),
                       hocketRemoteError, other, {"another communicator has failed", "window of this one, too"});
          EXPECT_EQ(hocketCommDeregister(other, handle), hocketSuccess);
        }
        EXPECT_EQ(hocketCommDestroy(other), hocketRemoteError);
      },
      config_with_timeout(1000));
}

TEST(Registration, AtDifferentOffsetsIsReportedOnAllRanks) {
  constexpr size_t kCount = 300000;
  run_threads(2, [](Member& member) {
    const Registered memory(member, 2 * kCount);
    int32_t* data = memory.send() + (member.rank == 1 ? 16 : 0);
    expect_error(hocketAllReduce(data, data, kCount, hocketInt32, hocketSum, member.comm, nullptr), hocketInvalidUsage,
                 member.comm, {"sendbuff at 0 of window 1", "sendbuff at 64 of window 1"});
  });
}

// What one rank's part has not is outside on all.
TEST(Registration, OfDifferentSizesReachesAsFarAsTheSmallest) {
  constexpr size_t kCount = 300000;
  run_threads(2, [](Member& member) {
    void* memory = nullptr;
    void* handle = nullptr;
    const size_t bytes = 2 * kCount * sizeof(int32_t);
    ASSERT_EQ(hocketMemAlloc(&memory, bytes), hocketSuccess);
    ASSERT_EQ(hocketCommRegister(member.comm, memory, member.rank == 0 ? bytes : bytes / 4, &handle), hocketSuccess);
    auto* data = static_cast<int32_t*>(memory);
    for (int number = 0; number < 3; ++number) {
      fill(data, kCount, member.rank, number);
      ASSERT_EQ(hocketAllReduce(data, data, kCount, hocketInt32, hocketSum, member.comm, nullptr), hocketSuccess)
          << hocketGetLastError(member.comm);
      expect_all("all_reduce", data, kCount, [&](size_t i) { return sum(2, i, number); });
    }
    EXPECT_EQ(hocketCommDeregister(member.comm, handle), hocketSuccess);
    EXPECT_EQ(hocketMemFree(memory), hocketSuccess);
  });
}

// A call that is repeated knows where the peers' memory was.
TEST(Registration, ThatHasEndedIsForgottenByCallsThatAreRepeated) {
  constexpr size_t kCount = 16384;  // 4 ranks use windows for it
  run_threads(4, [](Member& member) {
    void* memory = nullptr;
    void* handle = nullptr;
    ASSERT_EQ(hocketMemAlloc(&memory, kCount * sizeof(int32_t)), hocketSuccess);
    ASSERT_EQ(hocketCommRegister(member.comm, memory, kCount * sizeof(int32_t), &handle), hocketSuccess);
    auto* data = static_cast<int32_t*>(memory);
    for (int number = 0; number < 6; ++number) {
      fill(data, kCount, member.rank, number);
      ASSERT_EQ(hocketAllReduce(data, data, kCount, hocketInt32, hocketSum, member.comm, nullptr), hocketSuccess)
          << hocketGetLastError(member.comm);
      expect_all("all_reduce", data, kCount, [&](size_t i) { return sum(4, i, number); });
      if (number != 3) continue;
      ASSERT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
      EXPECT_EQ(hocketCommDeregister(member.comm, handle), hocketSuccess);
      ASSERT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    }
    EXPECT_EQ(hocketMemFree(memory), hocketSuccess);
  });
}

// The rank that leaves it out calls only when the other's time has passed: whose watch ends first would be chance.
TEST(Registration, ThatARankLeavesOutEndsInTime) {
  std::latch ended{1};
  run_threads(
      2,
      [&ended](Member& member) {
        if (member.rank == 1) {
          ended.wait();
          std::vector<int32_t> plain(40000);
          EXPECT_NE(
              hocketAllReduce(plain.data(), plain.data(), plain.size(), hocketInt32, hocketSum, member.comm, nullptr),
              hocketSuccess);
          return;
        }
        const Registered memory(member, 40000);
        expect_error(hocketAllReduce(memory.send(), memory.send(), 40000, hocketInt32, hocketSum, member.comm, nullptr),
                     hocketTimeout, member.comm, {"window 1: not registered by ranks 1 within 0.3 s"});
        ended.count_down();
      },
      config_with_timeout(300));
}

// Nobody waits for it until the time has passed.
TEST(Registration, ThatARankLeavesWithoutEndsAtOnce) {
  run_threads(2, [](Member& member) {
    if (member.rank == 1) {
      hocketCommDestroy(std::exchange(member.comm, nullptr));
      return;
    }
    const Registered memory(member, 40000);
    expect_error(hocketAllReduce(memory.send(), memory.send(), 40000, hocketInt32, hocketSum, member.comm, nullptr),
                 hocketInvalidUsage, member.comm, {"window 1: rank 1 has left without it"});
  });
}

// The prologue of a contribution is its own rank's.
TEST(Registration, KeepsEachRanksScalar) {
  constexpr size_t kCount = 300000;
  run_threads(3, [](Member& member) {
    const Registered memory(member, kCount);
    int32_t scalar = member.rank + 2;
    hocketRedOp_t op{};
    ASSERT_EQ(hocketRedOpCreatePreMulSum(&op, &scalar, hocketInt32, hocketScalarHostImmediate, member.comm),
              hocketSuccess);
    fill(memory.send(), kCount, member.rank, 0);
    ASSERT_EQ(hocketAllReduce(memory.send(), memory.recv(), kCount, hocketInt32, op, member.comm, nullptr),
              hocketSuccess);
    expect_all("all_reduce", memory.recv(), kCount,
               [](size_t i) { return 2 * value(0, i, 0) + 3 * value(1, i, 0) + 4 * value(2, i, 0); });
  });
}

TEST(Registration, EndsAndBeginsAgain) {
  run_threads(2, [](Member& member) {
    for (int number = 0; number < 20; ++number) {
      const Registered first(member, 5000);
      const Registered second(member, 20000);
      const Round round{member, number % 2 == 0 ? first : second, 2500, number};
      round.all_reduce(false);
      round.all_gather(true);
    }
  });
}

TEST(Registration, WindowsOfQueuesAndGroups) {
  constexpr size_t kCount = 300000;
  run_threads(2, [](Member& member) {
    const Registered memory(member, 2 * kCount);
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    fill(memory.send(), 2 * kCount, member.rank, 0);
    ASSERT_EQ(hocketGroupStart(), hocketSuccess);
    for (const size_t at : {size_t{0}, kCount}) {
      EXPECT_EQ(hocketAllReduce(memory.send() + at, memory.recv() + at, kCount, hocketInt32, hocketSum, member.comm,
                                hocketQueueStream(queue)),
                hocketSuccess);
    }
    EXPECT_EQ(hocketGroupEnd(), hocketSuccess);
    EXPECT_EQ(hocketQueueSynchronize(queue), hocketSuccess);
    expect_all("all_reduce", memory.recv(), 2 * kCount, [](size_t i) { return sum(2, i, 0); });
    EXPECT_EQ(hocketQueueDestroy(queue), hocketSuccess);
  });
}

TEST(Registration, RefusesWhatMakesNoSense) {
  void* memory = nullptr;
  EXPECT_EQ(hocketMemAlloc(nullptr, 64), hocketInvalidArgument);
  EXPECT_EQ(hocketMemAlloc(&memory, 0), hocketInvalidArgument);
  EXPECT_EQ(hocketMemAlloc(&memory, SIZE_MAX / 2), hocketSystemError);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(hocketMemFree(nullptr), hocketSuccess);
  int on_stack = 0;
  expect_error(hocketMemFree(&on_stack), hocketInvalidArgument, nullptr, {"is not what hocketMemAlloc gave"});
  ASSERT_EQ(hocketMemAlloc(&memory, 64), hocketSuccess);
  EXPECT_EQ(hocketMemFree(static_cast<char*>(memory) + 8), hocketInvalidArgument);
  run_threads(1, [&](Member& member) {
    void* handle = nullptr;
    hocketWindow_t window = nullptr;
    EXPECT_EQ(hocketCommRegister(nullptr, memory, 64, &handle), hocketInvalidArgument);
    EXPECT_EQ(hocketCommRegister(member.comm, nullptr, 64, &handle), hocketInvalidArgument);
    EXPECT_EQ(hocketCommRegister(member.comm, memory, 0, &handle), hocketInvalidArgument);
    EXPECT_EQ(hocketCommRegister(member.comm, memory, 64, nullptr), hocketInvalidArgument);
    EXPECT_EQ(hocketCommWindowRegister(member.comm, memory, 64, &window, 2), hocketInvalidArgument);
    EXPECT_EQ(hocketCommDeregister(member.comm, nullptr), hocketSuccess);
    EXPECT_EQ(hocketCommDeregister(member.comm, &on_stack), hocketInvalidArgument);
    EXPECT_EQ(hocketCommWindowRegister(member.comm, memory, 64, &window, HOCKET_WIN_COLL_SYMMETRIC), hocketSuccess);
    EXPECT_EQ(hocketCommWindowDeregister(member.comm, window), hocketSuccess);
    EXPECT_EQ(hocketCommWindowDeregister(member.comm, window), hocketInvalidArgument);
  });
  EXPECT_EQ(hocketMemFree(memory), hocketSuccess);
  EXPECT_EQ(hocketMemFree(memory), hocketInvalidArgument);
}

}  // namespace
}  // namespace hocket::test
