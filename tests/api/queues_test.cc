// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Queues: operations in the background, in order, of several communicators at once and from several threads.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

class Queue {
 public:
  Queue() { EXPECT_EQ(hocketQueueCreate(&queue_), hocketSuccess); }
  ~Queue() { hocketQueueDestroy(queue_); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  hocketQueue_t get() const { return queue_; }
  hocketStream_t stream() const { return hocketQueueStream(queue_); }

 private:
  hocketQueue_t queue_ = nullptr;
};

hocketResult_t add(int64_t& value, const Member& member, hocketStream_t stream) {
  return hocketAllReduce(&value, &value, 1, hocketInt64, hocketSum, member.comm, stream);
}

void wait_for(hocketQueue_t queue) {
  EXPECT_EQ(hocketQueueSynchronize(queue), hocketSuccess) << hocketGetLastError(nullptr);
}

TEST(Queues, RunInOrder) {
  run_threads(3, [](Member& member) {
    const Queue queue;
    int64_t value = 1;
    for (int i = 0; i < 20; ++i) EXPECT_EQ(add(value, member, queue.stream()), hocketSuccess);
    wait_for(queue.get());
    EXPECT_EQ(value, 3486784401);  // 3^20: each took the result of the one before
  });
}

TEST(Queues, MarksNameWhatWasIssuedBefore) {
  run_threads(2, [](Member& member) {
    const Queue queue;
    uint64_t empty = 0;
    uint64_t one = 0;
    uint64_t both = 0;
    int done = 0;
    float first = 0;
    float second = 0;
    ASSERT_EQ(hocketQueueMark(queue.get(), &empty), hocketSuccess);
    EXPECT_EQ(hocketQueueTest(queue.get(), empty, &done), hocketSuccess);
    EXPECT_EQ(done, 1);
    if (member.rank == 1) {
      first = 10;
      second = 20;
      EXPECT_EQ(hocketSend(&first, 1, hocketFloat, 0, member.comm, nullptr), hocketSuccess);
      EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
      EXPECT_EQ(hocketSend(&second, 1, hocketFloat, 0, member.comm, nullptr), hocketSuccess);
      return;
    }
    EXPECT_EQ(hocketRecv(&first, 1, hocketFloat, 1, member.comm, queue.stream()), hocketSuccess);
    ASSERT_EQ(hocketQueueMark(queue.get(), &one), hocketSuccess);
    EXPECT_EQ(hocketRecv(&second, 1, hocketFloat, 1, member.comm, queue.stream()), hocketSuccess);
    ASSERT_EQ(hocketQueueMark(queue.get(), &both), hocketSuccess);
    EXPECT_LT(one, both);
    EXPECT_EQ(hocketQueueWait(queue.get(), one), hocketSuccess);
    EXPECT_EQ(first, 10);
    EXPECT_EQ(hocketQueueTest(queue.get(), both, &done), hocketSuccess);
    EXPECT_EQ(done, 0) << "the second was not sent yet";
    hocketResult_t state = hocketSuccess;
    EXPECT_EQ(hocketCommGetAsyncError(member.comm, &state), hocketSuccess);
    EXPECT_EQ(state, hocketInProgress);
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    while (done == 0) EXPECT_EQ(hocketQueueTest(queue.get(), both, &done), hocketSuccess);
    EXPECT_EQ(second, 20);
    expect_error(hocketQueueWait(queue.get(), both + 1), hocketInvalidArgument, nullptr, {"lies ahead of the queue"});
    expect_error(hocketQueueTest(queue.get(), both + 1, &done), hocketInvalidArgument, nullptr,
                 {"mark: 3 lies ahead of the queue's 2"});
    EXPECT_EQ(hocketCommGetAsyncError(member.comm, &state), hocketSuccess);
    EXPECT_EQ(state, hocketSuccess);
  });
}

TEST(Queues, WaitForALimitedTime) {
  run_threads(2, [](Member& member) {
    const Queue queue;
    uint64_t mark = 0;
    int done = 1;
    float value = 1;
    if (member.rank == 0) {
      EXPECT_EQ(hocketRecv(&value, 1, hocketFloat, 1, member.comm, queue.stream()), hocketSuccess);
      ASSERT_EQ(hocketQueueMark(queue.get(), &mark), hocketSuccess);
      EXPECT_EQ(hocketQueueWaitFor(queue.get(), mark, 1, &done), hocketSuccess);
      EXPECT_EQ(done, 0) << "nothing was sent yet";
      expect_error(hocketQueueWaitFor(queue.get(), mark, -1, &done), hocketInvalidArgument, nullptr, {"timeoutMs: -1"});
      expect_error(hocketQueueWaitFor(queue.get(), mark + 1, 1, &done), hocketInvalidArgument, nullptr, {"lies ahead"});
    }
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    if (member.rank == 1) {
      EXPECT_EQ(hocketSend(&value, 1, hocketFloat, 0, member.comm, nullptr), hocketSuccess);
    } else {
      EXPECT_EQ(hocketQueueWaitFor(queue.get(), mark, 60'000, &done), hocketSuccess);
      EXPECT_EQ(done, 1);
    }
  });
}

TEST(Queues, AProbeFindsWhoHasSent) {
  run_threads(3, [](Member& member) {
    float value = static_cast<float>(member.rank);
    int peer = 0;
    if (member.rank == 0) {
      EXPECT_EQ(hocketProbe(member.comm, &peer), hocketSuccess);
      EXPECT_EQ(peer, -1) << "nobody has sent";
      expect_error(hocketProbe(member.comm, nullptr), hocketInvalidArgument, member.comm, {"peer is NULL"});
    }
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    if (member.rank > 0) {
      EXPECT_EQ(hocketSend(&value, 1, hocketFloat, 0, member.comm, nullptr), hocketSuccess);
      EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
      return;
    }
    int from_all = 0;
    for (int received = 0; received < 2; ++received) {
      do {
        ASSERT_EQ(hocketProbe(member.comm, &peer), hocketSuccess);
      } while (peer < 0);
      EXPECT_EQ(hocketRecv(&value, 1, hocketFloat, peer, member.comm, nullptr), hocketSuccess);
      EXPECT_EQ(value, static_cast<float>(peer));
      from_all += peer;
    }
    EXPECT_EQ(from_all, 3);
    EXPECT_EQ(hocketProbe(member.comm, &peer), hocketSuccess);
    EXPECT_EQ(peer, -1) << "all was received";
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
  });
}

TEST(Queues, OfOneCommunicatorKeepItsOrderWhicheverQueueHoldsACall) {
  run_threads(3, [](Member& member) {
    const Queue queues[3];
    std::vector<int64_t> values(60, 1);
    // On every rank another queue holds a given call; the calls themselves are issued in the same order.
    for (size_t i = 0; i < values.size(); ++i) {
      const Queue& queue = queues[(i + static_cast<size_t>(member.rank) * (i % 4)) % 3];
      EXPECT_EQ(add(values[i], member, queue.stream()), hocketSuccess);
    }
    for (const Queue& queue : queues) wait_for(queue.get());
    for (const int64_t value : values) EXPECT_EQ(value, 3);
  });
}

// Communicators that the same ranks share, all in use at once.
std::vector<Member> members_of(const std::vector<hocketUniqueId>& ids, int rank, int ranks) {
  std::vector<Member> members;
  for (const hocketUniqueId& id : ids) {
    members.push_back({rank, ranks, nullptr});
    EXPECT_EQ(hocketCommInitRank(&members.back().comm, ranks, id, rank), hocketSuccess) << hocketGetLastError(nullptr);
  }
  return members;
}

void with_communicators(int ranks, int count, const std::function<void(std::vector<Member>&)>& body) {
  std::vector<hocketUniqueId> ids(static_cast<size_t>(count));
  for (hocketUniqueId& id : ids) ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  on_threads(ranks, [&](int rank) {
    std::vector<Member> members = members_of(ids, rank, ranks);
    body(members);
    for (const Member& member : members) hocketCommDestroy(member.comm);
  });
}

TEST(Queues, FilledInDifferentOrderAcrossCommunicators) {
  with_communicators(3, 4, [](std::vector<Member>& members) {
    std::vector<Queue> queues(members.size());
    std::vector<int64_t> values(members.size(), 1);
    std::mt19937 random(static_cast<unsigned>(members[0].rank));
    for (int round = 0; round < 10; ++round) {
      std::vector<size_t> order{0, 1, 2, 3};
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t i : order) EXPECT_EQ(add(values[i], members[i], queues[i].stream()), hocketSuccess);
    }
    std::vector<size_t> order{0, 1, 2, 3};
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) wait_for(queues[i].get());
    for (const int64_t value : values) EXPECT_EQ(value, 59049);  // 3^10
  });
}

TEST(Queues, FilledByAThreadPerCommunicatorMixedWithBlockingCalls) {
  with_communicators(2, 3, [](std::vector<Member>& members) {
    on_threads(3, [&](int which) {
      const Member& member = members[static_cast<size_t>(which)];
      const Queue queue;
      int64_t queued = 1;
      for (int round = 0; round < 30; ++round) {
        EXPECT_EQ(add(queued, member, queue.stream()), hocketSuccess);
        if ((round + which) % 3 != 0) continue;
        // Waits for its turn behind the queued ones.
        int64_t blocking = 5;
        EXPECT_EQ(add(blocking, member, nullptr), hocketSuccess);
        EXPECT_EQ(blocking, 10);
        EXPECT_EQ(queued, int64_t{2} << round) << "the calls before it have ended";
      }
      wait_for(queue.get());
      EXPECT_EQ(queued, int64_t{1} << 30);
    });
  });
}

TEST(Queues, TransfersInTheBackgroundOfCollectives) {
  constexpr size_t kCount = 100000;
  run_threads(3, [](Member& member) {
    const Queue sending;
    const Queue receiving;
    const int next = (member.rank + 1) % member.ranks;
    const int before = (member.rank + member.ranks - 1) % member.ranks;
    std::vector<int32_t> sent(kCount, member.rank);
    std::vector<int32_t> received(kCount, -1);
    for (int round = 0; round < 5; ++round) {
      EXPECT_EQ(hocketRecv(received.data(), kCount, hocketInt32, before, member.comm, receiving.stream()),
                hocketSuccess);
      EXPECT_EQ(hocketSend(sent.data(), kCount, hocketInt32, next, member.comm, sending.stream()), hocketSuccess);
      int64_t value = 1;
      EXPECT_EQ(add(value, member, nullptr), hocketSuccess);
      EXPECT_EQ(value, 3);
    }
    wait_for(receiving.get());
    wait_for(sending.get());
    EXPECT_EQ(received, std::vector<int32_t>(kCount, before));
  });
}

TEST(Queues, HoldGroups) {
  constexpr size_t kCount = 1000;
  run_threads(4, [](Member& member) {
    const Queue queue;
    std::vector<int32_t> sent(kCount * 4, member.rank);
    std::vector<int32_t> received(kCount * 4, -1);
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(hocketGroupStart(), hocketSuccess);
      for (int peer = 0; peer < 4; ++peer) {
        const size_t at = kCount * static_cast<size_t>(peer);
        hocketSend(&sent[at], kCount, hocketInt32, peer, member.comm, queue.stream());
        hocketRecv(&received[at], kCount, hocketInt32, peer, member.comm, queue.stream());
      }
      EXPECT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
    }
    wait_for(queue.get());
    for (size_t i = 0; i < received.size(); ++i) ASSERT_EQ(received[i], static_cast<int32_t>(i / kCount));
  });
}

TEST(Queues, AnyThreadMayTestAndWait) {
  run_threads(2, [](Member& member) {
    const Queue queue;
    int64_t value = 1;
    uint64_t mark = 0;
    EXPECT_EQ(add(value, member, queue.stream()), hocketSuccess);
    ASSERT_EQ(hocketQueueMark(queue.get(), &mark), hocketSuccess);
    on_threads(4, [&](int which) {
      int done = 0;
      if (which % 2 == 0) {
        EXPECT_EQ(hocketQueueWait(queue.get(), mark), hocketSuccess);
      }
      while (done == 0) EXPECT_EQ(hocketQueueTest(queue.get(), mark, &done), hocketSuccess);
      EXPECT_EQ(value, 2);
    });
  });
}

TEST(Queues, DestroyWaitsForWhatIsPending) {
  run_threads(2, [](Member& member) {
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    std::vector<int64_t> values(50, 1);
    for (int64_t& value : values) EXPECT_EQ(add(value, member, hocketQueueStream(queue)), hocketSuccess);
    if (member.rank == 0) {
      EXPECT_EQ(hocketQueueDestroy(queue), hocketSuccess);
      EXPECT_EQ(hocketCommDestroy(member.comm), hocketSuccess);
    } else {
      EXPECT_EQ(hocketCommDestroy(member.comm), hocketSuccess);
      EXPECT_EQ(hocketQueueDestroy(queue), hocketSuccess);
    }
    member.comm = nullptr;
    for (const int64_t value : values) EXPECT_EQ(value, 2);
  });
}

TEST(Queues, FinalizeWaitsForWhatIsPending) {
  run_threads(2, [](Member& member) {
    const Queue queue;
    std::vector<int64_t> values(50, 1);
    for (int64_t& value : values) EXPECT_EQ(add(value, member, queue.stream()), hocketSuccess);
    EXPECT_EQ(hocketCommFinalize(member.comm), hocketSuccess);
    for (const int64_t value : values) EXPECT_EQ(value, 2);
    expect_error(add(values[0], member, queue.stream()), hocketInvalidUsage, member.comm, {"is finalized"});
  });
}

// Exits with 0 if `body` returns true within its time.
void expect_in_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Nobody runs there what the parent's queues hold, and nothing waits for it; new ones run.
TEST(Queues, OfAProcessThatWasForked) {
  const Queue queue;
  hocketComm_t comms[2] = {};
  ASSERT_EQ(hocketCommInitAll(comms, 2, nullptr), hocketSuccess);
  int64_t value = 1;
  ASSERT_EQ(hocketAllReduce(&value, &value, 1, hocketInt64, hocketSum, comms[0], queue.stream()), hocketSuccess);
  expect_in_child([&] {
    const bool refused =
        hocketQueueSynchronize(queue.get()) == hocketInvalidUsage &&
        std::string(hocketGetLastError(nullptr)).find("was forked") != std::string::npos &&
        hocketAllReduce(&value, &value, 1, hocketInt64, hocketSum, comms[1], queue.stream()) == hocketInvalidUsage;
    (void)hocketCommDestroy(comms[0]);
    hocketComm_t alone = nullptr;
    const Queue own;
    return refused && hocketCommInitAll(&alone, 1, nullptr) == hocketSuccess &&
           hocketAllReduce(&value, &value, 1, hocketInt64, hocketSum, alone, own.stream()) == hocketSuccess &&
           hocketQueueSynchronize(own.get()) == hocketSuccess;
  });
  ASSERT_EQ(hocketAllReduce(&value, &value, 1, hocketInt64, hocketSum, comms[1], nullptr), hocketSuccess);
  for (const hocketComm_t comm : comms) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
}

// What a reduction's function does, and is told.
struct Within {
  std::function<std::vector<hocketResult_t>()> calls;
  std::vector<hocketResult_t> told;
};

void add_and_call(const void* in, void* inout, size_t count, hocketDataType_t /*type*/, void* context) {
  auto& within = *static_cast<Within*>(context);
  within.told = within.calls();
  for (size_t i = 0; i < count; ++i) static_cast<int32_t*>(inout)[i] += static_cast<const int32_t*>(in)[i];
}

// It would wait for the call that it is part of.
TEST(Queues, AReductionsFunctionMayNotWait) {
  run_threads(2, [](Member& member) {
    const Queue queue;
    Within within;
    hocketRedOp_t op;
    ASSERT_EQ(hocketRedOpCreate(&op, add_and_call, &within, 1, member.comm), hocketSuccess);
    int32_t value = 1, sum = 0;
    within.calls = [&] {
      return std::vector{hocketCommFinalize(member.comm), hocketCommDestroy(member.comm),
                         hocketQueueSynchronize(queue.get()), hocketQueueDestroy(queue.get()),
                         hocketAllReduce(&value, &sum, 1, hocketInt32, hocketSum, member.comm, nullptr)};
    };
    for (const hocketStream_t stream : {hocketStream_t{}, queue.stream()}) {
      within.told.clear();
      ASSERT_EQ(hocketAllReduce(&value, &sum, 1, hocketInt32, op, member.comm, stream), hocketSuccess);
      wait_for(queue.get());
      EXPECT_EQ(sum, 2);
      within.told.resize(within.told.empty() ? 0 : 5);  // none: the other rank adds
      for (const hocketResult_t told : within.told) EXPECT_EQ(told, hocketInvalidUsage);
    }
    within.calls = [&] { return std::vector{hocketCommAbort(member.comm)}; };
    within.told.clear();
    (void)hocketAllReduce(&value, &sum, 1, hocketInt32, op, member.comm, nullptr);
    EXPECT_TRUE(within.told.empty() || within.told == std::vector{hocketInvalidUsage});
    EXPECT_EQ(hocketCommAbort(member.comm), hocketSuccess);
    member.comm = nullptr;
  });
}

TEST(Queues, TellOfAFailure) {
  run_threads(2, [](Member& member) {
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    const size_t count = member.rank == 0 ? 5 : 6;
    std::vector<float> values(6);
    EXPECT_EQ(hocketAllReduce(values.data(), values.data(), count, hocketFloat, hocketSum, member.comm,
                              hocketQueueStream(queue)),
              hocketSuccess);
    expect_error(hocketQueueSynchronize(queue), hocketInvalidUsage, nullptr,
                 {"rank 0", "rank 1", "all_reduce(count 5, float32, sum)", "all_reduce(count 6, float32, sum)"});
    hocketResult_t state = hocketSuccess;
    EXPECT_EQ(hocketCommGetAsyncError(member.comm, &state), hocketSuccess);
    EXPECT_EQ(state, hocketInvalidUsage);
    EXPECT_EQ(hocketQueueDestroy(queue), hocketInvalidUsage);
  });
}

}  // namespace
}  // namespace hocket::test
