// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Ranks whose calls do not fit together: every rank is told, soon, with both ranks and both calls.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using Clock = std::chrono::steady_clock;
using testing::AnyOf;
using testing::HasSubstr;

// Far above what is promised (a second), because this machine may be busy; far below the operation timeout.
constexpr Seconds kSoon{20};

struct Buffers {
  alignas(64) std::array<float, 4096> a{};
  alignas(64) std::array<float, 4096> b{};
};
using Call = std::function<hocketResult_t(Buffers&, hocketComm_t)>;

struct Difference {
  const char* name;
  Call usual;  // of all ranks but one
  Call odd;    // of that one
  const char* usual_text;
  const char* odd_text;
};

std::ostream& operator<<(std::ostream& out, const Difference& difference) { return out << difference.name; }

hocketResult_t reduce_all(Buffers& m, hocketComm_t comm, size_t count, hocketDataType_t type, hocketRedOp_t op) {
  return hocketAllReduce(m.a.data(), m.b.data(), count, type, op, comm, nullptr);
}

const Difference kDifferences[] = {
    {"Count", [](Buffers& m, hocketComm_t c) { return reduce_all(m, c, 100, hocketFloat, hocketSum); },
     [](Buffers& m, hocketComm_t c) { return reduce_all(m, c, 101, hocketFloat, hocketSum); },
     "all_reduce(count 100, float32, sum)", "all_reduce(count 101, float32, sum)"},
    {"CountOfNothing", [](Buffers& m, hocketComm_t c) { return reduce_all(m, c, 100, hocketFloat, hocketSum); },
     [](Buffers& m, hocketComm_t c) { return reduce_all(m, c, 0, hocketFloat, hocketSum); },
     "all_reduce(count 100, float32, sum)", "all_reduce(count 0, float32, sum)"},
    {"Type", [](Buffers& m, hocketComm_t c) { return reduce_all(m, c, 100, hocketFloat, hocketSum); },
     [](Buffers& m, hocketComm_t c) { return reduce_all(m, c, 100, hocketInt32, hocketSum); },
     "all_reduce(count 100, float32, sum)", "all_reduce(count 100, int32, sum)"},
    {"Operation", [](Buffers& m, hocketComm_t c) { return reduce_all(m, c, 100, hocketFloat, hocketSum); },
     [](Buffers& m, hocketComm_t c) { return reduce_all(m, c, 100, hocketFloat, hocketMax); },
     "all_reduce(count 100, float32, sum)", "all_reduce(count 100, float32, max)"},
    {"Collective", [](Buffers& m, hocketComm_t c) { return reduce_all(m, c, 100, hocketFloat, hocketSum); },
     [](Buffers& m, hocketComm_t c) { return hocketAllGather(m.a.data(), m.b.data(), 100, hocketFloat, c, nullptr); },
     "all_reduce(count 100, float32, sum)", "all_gather(count 100, float32)"},
    // Who only sends a small message may have returned before anybody looks: then the next call tells.
    {"RootOfReduce",
     [](Buffers& m, hocketComm_t c) {
       const hocketResult_t result = hocketReduce(m.a.data(), m.b.data(), 9, hocketFloat, hocketSum, 0, c, nullptr);
       return result != hocketSuccess ? result : hocketBarrier(c, nullptr);
     },
     [](Buffers& m, hocketComm_t c) {
       const hocketResult_t result = hocketReduce(m.a.data(), m.b.data(), 9, hocketFloat, hocketSum, 2, c, nullptr);
       return result != hocketSuccess ? result : hocketBarrier(c, nullptr);
     },
     "reduce(count 9, float32, sum, root 0)", "reduce(count 9, float32, sum, root 2)"},
    {"RootOfGather",
     [](Buffers& m, hocketComm_t c) {
       const hocketResult_t result = hocketGather(m.a.data(), m.b.data(), 9, hocketFloat, 0, c, nullptr);
       return result != hocketSuccess ? result : hocketBarrier(c, nullptr);
     },
     [](Buffers& m, hocketComm_t c) {
       const hocketResult_t result = hocketGather(m.a.data(), m.b.data(), 9, hocketFloat, 2, c, nullptr);
       return result != hocketSuccess ? result : hocketBarrier(c, nullptr);
     },
     "gather(count 9, float32, root 0)", "gather(count 9, float32, root 2)"},
    {"RootOfBroadcast",
     [](Buffers& m, hocketComm_t c) {
       const hocketResult_t result = hocketBroadcast(m.a.data(), m.b.data(), 9, hocketFloat, 0, c, nullptr);
       return result != hocketSuccess ? result : hocketBarrier(c, nullptr);
     },
     [](Buffers& m, hocketComm_t c) {
       const hocketResult_t result = hocketBroadcast(m.a.data(), m.b.data(), 9, hocketFloat, 2, c, nullptr);
       return result != hocketSuccess ? result : hocketBarrier(c, nullptr);
     },
     "broadcast(count 9, float32, root 0)", "broadcast(count 9, float32, root 2)"},
    {"RootOfScatter",
     [](Buffers& m, hocketComm_t c) {
       const hocketResult_t result = hocketScatter(m.a.data(), m.b.data(), 9, hocketFloat, 0, c, nullptr);
       return result != hocketSuccess ? result : hocketBarrier(c, nullptr);
     },
     [](Buffers& m, hocketComm_t c) {
       const hocketResult_t result = hocketScatter(m.a.data(), m.b.data(), 9, hocketFloat, 2, c, nullptr);
       return result != hocketSuccess ? result : hocketBarrier(c, nullptr);
     },
     "scatter(count 9, float32, root 0)", "scatter(count 9, float32, root 2)"},
    {"Order",
     [](Buffers& m, hocketComm_t c) {
       const hocketResult_t result = reduce_all(m, c, 5, hocketFloat, hocketSum);
       return result != hocketSuccess ? result : hocketBarrier(c, nullptr);
     },
     [](Buffers& m, hocketComm_t c) {
       const hocketResult_t result = hocketBarrier(c, nullptr);
       return result != hocketSuccess ? result : reduce_all(m, c, 5, hocketFloat, hocketSum);
     },
     "all_reduce(count 5, float32, sum)", "barrier()"},
    {"CountsOfAVForm",
     [](Buffers& m, hocketComm_t c) {
       const size_t counts[] = {4, 5, 6};
       int rank = 0;
       hocketCommUserRank(c, &rank);
       return hocketAllGatherV(m.a.data(), counts[rank], m.b.data(), counts, nullptr, hocketFloat, c, nullptr);
     },
     [](Buffers& m, hocketComm_t c) {
       const size_t counts[] = {4, 7, 6};
       return hocketAllGatherV(m.a.data(), 6, m.b.data(), counts, nullptr, hocketFloat, c, nullptr);
     },
     "all_gather_v(15 in all, counts #", "all_gather_v(17 in all, counts #"},
};

class Mismatch : public testing::TestWithParam<Difference> {};

TEST_P(Mismatch, IsToldOnEveryRankWithBothCalls) {
  const Difference& difference = GetParam();
  constexpr int kOdd = 2;
  run_threads(3, [&](Member& member) {
    Buffers buffers;
    const auto start = Clock::now();
    const bool is_odd = member.rank == kOdd;
    expect_error((is_odd ? difference.odd : difference.usual)(buffers, member.comm), hocketInvalidUsage, member.comm,
                 {"rank 2", difference.usual_text, difference.odd_text});
    EXPECT_LT(Seconds(Clock::now() - start), kSoon);
    const std::string first = hocketGetLastError(member.comm);
    EXPECT_THAT(first, AnyOf(HasSubstr("rank 0"), HasSubstr("rank 1")));
    // It stays so.
    expect_error(hocketBarrier(member.comm, nullptr), hocketInvalidUsage, member.comm, {first});
    hocketResult_t state = hocketSuccess;
    EXPECT_EQ(hocketCommGetAsyncError(member.comm, &state), hocketSuccess);
    EXPECT_EQ(state, hocketInvalidUsage);
  });
}

INSTANTIATE_TEST_SUITE_P(Calls, Mismatch, testing::ValuesIn(kDifferences),
                         [](const auto& each) { return std::string(each.param.name); });

// hocketGroupEnd names no communicator.
TEST(MismatchInAGroup, IsKeptByTheCommunicator) {
  run_threads(2, [](Member& member) {
    Buffers buffers;
    ASSERT_EQ(hocketGroupStart(), hocketSuccess);
    const size_t count = member.rank == 0 ? 5 : 6;
    EXPECT_EQ(reduce_all(buffers, member.comm, count, hocketFloat, hocketSum), hocketSuccess);
    EXPECT_EQ(hocketGroupEnd(), hocketInvalidUsage);
    EXPECT_THAT(hocketGetLastError(member.comm), AllOf(HasSubstr("count 5"), HasSubstr("count 6")));
  });
}

// Calls in which nobody waits for a message, so that all may have returned before they are found not to fit.
struct Unnoticed {
  const char* name;
  Call usual;
  Call odd;
  const char* usual_text;
  const char* odd_text;
};

const Unnoticed kUnnoticed[] = {
    {"BroadcastAndReduce",
     [](Buffers& m, hocketComm_t c) {
       return hocketReduce(m.a.data(), m.b.data(), 9, hocketFloat, hocketSum, 0, c, nullptr);
     },
     [](Buffers& m, hocketComm_t c) { return hocketBroadcast(m.a.data(), m.b.data(), 9, hocketFloat, 0, c, nullptr); },
     "reduce(count 9, float32, sum, root 0)", "broadcast(count 9, float32, root 0)"},
    {"ScatterAndGather",
     [](Buffers& m, hocketComm_t c) { return hocketGather(m.a.data(), m.b.data(), 9, hocketFloat, 0, c, nullptr); },
     [](Buffers& m, hocketComm_t c) { return hocketScatter(m.a.data(), m.b.data(), 9, hocketFloat, 0, c, nullptr); },
     "gather(count 9, float32, root 0)", "scatter(count 9, float32, root 0)"},
};

std::ostream& operator<<(std::ostream& out, const Unnoticed& unnoticed) { return out << unnoticed.name; }

class UnnoticedMismatch : public testing::TestWithParam<Unnoticed> {};

TEST_P(UnnoticedMismatch, IsToldToRanksThatCallNothingAnyMore) {
  const Unnoticed& unnoticed = GetParam();
  run_threads(3, [&](Member& member) {
    Buffers buffers;
    const auto start = Clock::now();
    hocketResult_t state = (member.rank == 0 ? unnoticed.odd : unnoticed.usual)(buffers, member.comm);
    while (state == hocketSuccess && Clock::now() - start < kSoon) hocketCommGetAsyncError(member.comm, &state);
    expect_error(state, hocketInvalidUsage, member.comm, {"rank 0", unnoticed.usual_text, unnoticed.odd_text});
  });
}

INSTANTIATE_TEST_SUITE_P(Calls, UnnoticedMismatch, testing::ValuesIn(kUnnoticed),
                         [](const auto& each) { return std::string(each.param.name); });

// Rank 3 sends to rank 0 where rank 0 sends to it. What stays behind lies in pipes that a barrier of six ranks does not
// look into: it sends one, two and four ranks ahead.
TEST(ForgottenMismatch, LetsNoLaterCallOfAllRanksSucceed) {
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  config.algorithm = "broadcast=direct,reduce=direct";
  for (int round = 0; round < 5; ++round) {
    run_threads(
        6,
        [](Member& member) {
          Buffers m;
          if (member.rank == 3) {
            (void)hocketReduce(m.a.data(), m.b.data(), 9, hocketFloat, hocketSum, 0, member.comm, nullptr);
          } else {
            (void)hocketBroadcast(m.a.data(), m.b.data(), 9, hocketFloat, 0, member.comm, nullptr);
          }
          expect_error(hocketBarrier(member.comm, nullptr), hocketInvalidUsage, member.comm,
                       {"rank 3", "reduce(count 9, float32, sum, root 0)", "broadcast(count 9, float32, root 0)"});
        },
        config);
  }
}

// Two ranks of which each waits in its call for the other, which cannot come.
void crossed_calls(const Call& first, const Call& second, const char* first_text, const char* second_text) {
  run_threads(2, [&](Member& member) {
    Buffers buffers;
    const auto start = Clock::now();
    expect_error((member.rank == 0 ? first : second)(buffers, member.comm), hocketInvalidUsage, member.comm,
                 {"does not match rank", first_text, second_text});
    EXPECT_LT(Seconds(Clock::now() - start), kSoon);
  });
}

constexpr size_t kLong = 8 << 20;  // does not fit into a pipe

hocketResult_t send_long(hocketComm_t comm, int peer) {
  static const std::vector<float> values(kLong);
  return hocketSend(values.data(), kLong, hocketFloat, peer, comm, nullptr);
}

TEST(CrossedCalls, RecvAndBarrier) {
  crossed_calls([](Buffers& m, hocketComm_t c) { return hocketRecv(m.a.data(), 9, hocketFloat, 1, c, nullptr); },
                [](Buffers&, hocketComm_t c) { return hocketBarrier(c, nullptr); },
                "recv(count 9, float32, from rank 1)", "barrier()");
}

TEST(CrossedCalls, SendAndAllReduce) {
  crossed_calls([](Buffers&, hocketComm_t c) { return send_long(c, 1); },
                [](Buffers& m, hocketComm_t c) { return reduce_all(m, c, 9, hocketFloat, hocketSum); },
                "send(count 8388608, float32, to rank 1)", "all_reduce(count 9, float32, sum)");
}

TEST(CrossedCalls, SendAndSend) {
  crossed_calls([](Buffers&, hocketComm_t c) { return send_long(c, 1); },
                [](Buffers&, hocketComm_t c) { return send_long(c, 0); }, "send(count 8388608, float32, to rank 1)",
                "send(count 8388608, float32, to rank 0)");
}

// The receive is late, and the sender is in its next call already: all is well.
TEST(CrossedCalls, AreNotThoseOfWhichOneOnlyComesLate) {
  run_threads(2, [](Member& member) {
    Buffers buffers;
    if (member.rank == 0) {
      EXPECT_EQ(hocketSend(buffers.a.data(), 9, hocketFloat, 1, member.comm, nullptr), hocketSuccess);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      EXPECT_EQ(hocketRecv(buffers.b.data(), 9, hocketFloat, 0, member.comm, nullptr), hocketSuccess);
    }
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess) << hocketGetLastError(member.comm);
  });
}

// Another call of the same rank may bring what this one waits for.
TEST(CrossedCalls, AreNotThoseOfQueues) {
  run_threads(2, [](Member& member) {
    float value = 1;
    if (member.rank == 0) {
      EXPECT_EQ(send_long(member.comm, 1), hocketSuccess) << hocketGetLastError(member.comm);
      EXPECT_EQ(hocketAllReduce(&value, &value, 1, hocketFloat, hocketSum, member.comm, nullptr), hocketSuccess);
      return;
    }
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    EXPECT_EQ(hocketAllReduce(&value, &value, 1, hocketFloat, hocketSum, member.comm, hocketQueueStream(queue)),
              hocketSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    std::vector<float> values(kLong);
    EXPECT_EQ(hocketRecv(values.data(), kLong, hocketFloat, 0, member.comm, nullptr), hocketSuccess)
        << hocketGetLastError(member.comm);
    EXPECT_EQ(hocketQueueDestroy(queue), hocketSuccess);
  });
}

// Both sides of a transfer, and whoever else is in a call.
void mismatched_transfer(const Call& send, const Call& receive, const std::vector<std::string>& parts) {
  run_threads(3, [&](Member& member) {
    Buffers buffers;
    const auto start = Clock::now();
    hocketResult_t result = hocketSuccess;
    if (member.rank == 0) result = send(buffers, member.comm);
    if (member.rank == 1) result = receive(buffers, member.comm);
    // A small message may be sent before it is found not to fit.
    if (result == hocketSuccess) result = hocketBarrier(member.comm, nullptr);
    expect_error(result, hocketInvalidUsage, member.comm, parts);
    EXPECT_LT(Seconds(Clock::now() - start), kSoon);
  });
}

TEST(MismatchedTransfer, Count) {
  mismatched_transfer([](Buffers& m, hocketComm_t c) { return hocketSend(m.a.data(), 10, hocketFloat, 1, c, nullptr); },
                      [](Buffers& m, hocketComm_t c) { return hocketRecv(m.b.data(), 11, hocketFloat, 0, c, nullptr); },
                      {"rank 1: recv(count 11, float32, from rank 0)", "rank 0", "send(count 10, float32, to rank 1)"});
}

TEST(MismatchedTransfer, Type) {
  mismatched_transfer([](Buffers& m, hocketComm_t c) { return hocketSend(m.a.data(), 10, hocketFloat, 1, c, nullptr); },
                      [](Buffers& m, hocketComm_t c) { return hocketRecv(m.b.data(), 10, hocketInt32, 0, c, nullptr); },
                      {"rank 1: recv(count 10, int32, from rank 0)", "rank 0", "send(count 10, float32, to rank 1)"});
}

const Role forced_role("forced", [](const Part& part) {
  setenv("HOCKET_ALGORITHM", part.rank == 0 ? "all_gather=ring" : "all_gather=direct", 1);
  const Member member = part.join();
  Buffers buffers;
  const hocketResult_t result =
      hocketAllGather(buffers.a.data(), buffers.b.data(), 9, hocketFloat, member.comm, nullptr);
  std::printf("%s\n", hocketGetLastError(member.comm));
  hocketCommDestroy(member.comm);
  return result == hocketInvalidUsage ? 0 : 1;
});

TEST(MismatchOfPlans, NamesThePlans) {
  Processes processes("forced", 2, {{}, {}, {}, true});
  for (const Processes::End& end : processes.finish(kSoon)) {
    EXPECT_EQ(end.status, 0) << end.output;
    EXPECT_THAT(end.output, HasSubstr("all_gather(count 9, float32) by ring"));
    EXPECT_THAT(end.output, HasSubstr("all_gather(count 9, float32) by direct"));
  }
}

const Role half_sealed_role("half sealed", [](const Part& part) {
  setenv("HOCKET_ENCRYPT", part.rank == 0 ? "on" : "off", 1);
  const Member member = part.join(config_with_timeout(3000));
  hocketCommDestroy(member.comm);
  return 0;
});

TEST(Encryption, IsOfAllRanksOrOfNone) {
  Processes processes("half sealed", 2, {{}, {}, {}, true});
  std::string all;
  for (const Processes::End& end : processes.finish(kSoon)) {
    EXPECT_EQ(end.status, 3) << end.output;
    all += end.output;
  }
  EXPECT_THAT(all, HasSubstr("HOCKET_ENCRYPT must be equal on all ranks"));
}

// A rank that lives but does not come: everybody is told which, whatever the plan of the call.
void missing_rank(int ranks, int missing, const std::function<hocketResult_t(float*, float*, hocketComm_t)>& call) {
  run_threads(
      ranks,
      [&](Member& member) {
        std::array<float, 64> a{};
        std::array<float, 64> b{};
        const auto start = Clock::now();
        hocketResult_t state = hocketSuccess;
        if (member.rank != missing) state = call(a.data(), b.data(), member.comm);
        // The missing rank, and those that did not need it.
        while (state == hocketSuccess && Clock::now() - start < kSoon) hocketCommGetAsyncError(member.comm, &state);
        expect_error(state, hocketTimeout, member.comm,
                     {"rank " + std::to_string(missing) + " has not come within 700 ms"});
        EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(600));
        EXPECT_LT(Seconds(Clock::now() - start), kSoon);
      },
      config_with_timeout(700));
}

TEST(MissingRank, OfAnAllReduce) {
  missing_rank(3, 1, [](float* a, float* b, hocketComm_t c) {
    return hocketAllReduce(a, b, 10, hocketFloat, hocketSum, c, nullptr);
  });
}

TEST(MissingRank, ThatOthersWaitForOnlyThroughOthers) {
  missing_rank(9, 8, [](float* a, float* b, hocketComm_t c) {
    return hocketAllReduce(a, b, 10, hocketFloat, hocketSum, c, nullptr);
  });
  missing_rank(7, 5, [](float*, float*, hocketComm_t c) { return hocketBarrier(c, nullptr); });
  missing_rank(7, 3, [](float* a, float* b, hocketComm_t c) {
    return hocketScan(a, b, 10, hocketFloat, hocketSum, c, nullptr);
  });
}

TEST(MissingRank, OfATransfer) {
  run_threads(
      2,
      [](Member& member) {
        float value = 0;
        if (member.rank == 1) {
          hocketResult_t state = hocketSuccess;
          while (state == hocketSuccess) hocketCommGetAsyncError(member.comm, &state);
          EXPECT_EQ(state, hocketTimeout);
          return;
        }
        expect_error(hocketRecv(&value, 1, hocketFloat, 1, member.comm, nullptr), hocketTimeout, member.comm,
                     {"rank 0: recv(count 1, float32, from rank 1)", "rank 1 has not come within 300 ms"});
      },
      config_with_timeout(300));
}

// Rank 1 is in a call with rank 2, which does nothing.
TEST(MissingRank, IsSaidToBeInTheCallThatItIsIn) {
  std::atomic<bool> rank_0_calls = false;
  run_threads(
      3,
      [&](Member& member) {
        float value = 0;
        if (member.rank == 0) rank_0_calls = true;
        while (!rank_0_calls) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (member.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));  // else it may give up first
        hocketResult_t state = hocketSuccess;
        if (member.rank < 2) state = hocketRecv(&value, 1, hocketFloat, member.rank + 1, member.comm, nullptr);
        while (state == hocketSuccess) hocketCommGetAsyncError(member.comm, &state);
        expect_error(state, hocketTimeout, member.comm,
                     {"rank 0: recv(count 1, float32, from rank 1) #1: rank 1 has not come within 800 ms; its newest "
                      "call is recv(count 1, float32, from rank 2)"});
      },
      config_with_timeout(800));
}

TEST(MissingRank, WhoOnlyComesLateIsWaitedFor) {
  run_threads(3, [](Member& member) {
    if (member.rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(900));
    int32_t value = 1;
    EXPECT_EQ(hocketAllReduce(&value, &value, 1, hocketInt32, hocketSum, member.comm, nullptr), hocketSuccess)
        << hocketGetLastError(member.comm);
    EXPECT_EQ(value, 3);
  });
}

}  // namespace
}  // namespace hocket::test
