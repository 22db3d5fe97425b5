// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How communicators come and go: all at once, in groups, by splitting, and many driven by one thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

struct Where {
  int rank = -1;
  int ranks = -1;
  friend bool operator==(const Where&, const Where&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Where& where) {
    return out << where.rank << " of " << where.ranks;
  }
};

Where where(hocketComm_t comm) {
  Where where;
  EXPECT_EQ(hocketCommUserRank(comm, &where.rank), hocketSuccess);
  EXPECT_EQ(hocketCommCount(comm, &where.ranks), hocketSuccess);
  return where;
}

// The sum of `value` over all ranks of the communicator.
int64_t sum(hocketComm_t comm, int64_t value) {
  EXPECT_EQ(hocketAllReduce(&value, &value, 1, hocketInt64, hocketSum, comm, nullptr), hocketSuccess)
      << hocketGetLastError(comm);
  return value;
}

TEST(InitRank, WaitsForMissingRanksAsLongAsItsConfigSays) {
  hocketUniqueId id;
  ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  hocketConfig_t config = config_with_timeout(300);
  hocketComm_t comm = nullptr;
  const auto start = std::chrono::steady_clock::now();
  expect_error(hocketCommInitRankConfig(&comm, 2, id, 0, &config), hocketTimeout, nullptr,
               {"rank 1 of 2 did not join within 0.3 s (the operation timeout)"});
  EXPECT_LT(Seconds(std::chrono::steady_clock::now() - start), Seconds(10));
}

TEST(InitAll, OneThreadDrivesAllRanksByGroups) {
  std::array<hocketComm_t, 5> comms{};
  ASSERT_EQ(hocketCommInitAll(comms.data(), 5, nullptr), hocketSuccess) << hocketGetLastError(nullptr);
  std::array<std::array<float, 1000>, 5> values{};
  for (int round = 0; round < 3; ++round) {
    hocketGroupStart();
    for (size_t rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(where(comms[rank]), (Where{static_cast<int>(rank), 5}));
      values[rank].fill(static_cast<float>(rank + 1));
      EXPECT_EQ(
          hocketAllReduce(values[rank].data(), values[rank].data(), 1000, hocketFloat, hocketSum, comms[rank], nullptr),
          hocketSuccess);
    }
    EXPECT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
    for (const auto& each : values) {
      for (const float value : each) ASSERT_EQ(value, 15);
    }
  }
  for (const hocketComm_t comm : comms) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
}

TEST(InitAll, WithinAGroupAndOfSeveralCommunicators) {
  std::array<hocketComm_t, 3> first{};
  std::array<hocketComm_t, 2> second{};
  hocketGroupStart();
  EXPECT_EQ(hocketCommInitAll(first.data(), 3, nullptr), hocketSuccess);
  EXPECT_EQ(hocketCommInitAll(second.data(), 2, nullptr), hocketSuccess);
  ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
  std::array<int64_t, 5> values{1, 2, 3, 10, 20};
  hocketGroupStart();
  for (size_t i = 0; i < 5; ++i) {
    hocketAllReduce(&values[i], &values[i], 1, hocketInt64, hocketSum, i < 3 ? first[i] : second[i - 3], nullptr);
  }
  EXPECT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
  EXPECT_EQ(values, (std::array<int64_t, 5>{6, 6, 6, 30, 30}));
  for (const hocketComm_t comm : first) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
  for (const hocketComm_t comm : second) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
}

// The communicators of a thread's own, both ranks of which it drives, while other threads do the same with theirs.
TEST(InitAll, ThreadsWithCommunicatorsOfTheirOwnAllAtOnce) {
  on_threads(4, [](int thread) {
    for (int cycle = 0; cycle < 3; ++cycle) {
      std::array<hocketComm_t, 2> comms{};
      ASSERT_EQ(hocketCommInitAll(comms.data(), 2, nullptr), hocketSuccess) << hocketGetLastError(nullptr);
      for (int round = 0; round < 100; ++round) {
        const size_t count = round % 10 == 0 ? 100'000 : 2;
        std::array<std::vector<int32_t>, 2> values;
        hocketGroupStart();
        for (size_t rank = 0; rank < 2; ++rank) {
          for (size_t i = 0; i < count; ++i) {
            values[rank].push_back(static_cast<int32_t>(i % 13 + rank) + 100 * thread + round);
          }
          EXPECT_EQ(hocketAllReduce(values[rank].data(), values[rank].data(), count, hocketInt32, hocketSum,
                                    comms[rank], nullptr),
                    hocketSuccess);
        }
        ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
        EXPECT_EQ(values[0], values[1]);
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(values[0][i], static_cast<int32_t>(2 * (i % 13) + 1) + 2 * (100 * thread + round));
        }
      }
      for (const hocketComm_t comm : comms) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
    }
  });
}

TEST(Groups, NestAndRunAtTheOutermostEnd) {
  std::array<hocketComm_t, 2> comms{};
  ASSERT_EQ(hocketCommInitAll(comms.data(), 2, nullptr), hocketSuccess);
  std::array<int64_t, 2> values{1, 2};
  hocketGroupStart();
  for (size_t rank = 0; rank < 2; ++rank) {
    hocketGroupStart();
    hocketAllReduce(&values[rank], &values[rank], 1, hocketInt64, hocketSum, comms[rank], nullptr);
    EXPECT_EQ(hocketGroupEnd(), hocketSuccess);
    EXPECT_EQ(values[rank], static_cast<int64_t>(rank + 1)) << "ran too early";
  }
  EXPECT_EQ(hocketGroupEnd(), hocketSuccess);
  EXPECT_EQ(values, (std::array<int64_t, 2>{3, 3}));
  EXPECT_EQ(hocketGroupStart(), hocketSuccess);
  EXPECT_EQ(hocketGroupEnd(), hocketSuccess) << "an empty group";
  for (const hocketComm_t comm : comms) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
}

TEST(Groups, HoldDifferentCollectivesOfOneCommunicator) {
  run_threads(3, [](Member& member) {
    const int next = (member.rank + 1) % 3;
    const int before = (member.rank + 2) % 3;
    int64_t total = member.rank;
    int64_t root = member.rank == 1 ? 77 : 0;
    int64_t neighbour = -1;
    const int64_t own = 100 + member.rank;
    std::array<int64_t, 3> all{};
    hocketGroupStart();
    hocketAllReduce(&total, &total, 1, hocketInt64, hocketSum, member.comm, nullptr);
    hocketSend(&own, 1, hocketInt64, next, member.comm, nullptr);
    hocketBcast(&root, 1, hocketInt64, 1, member.comm, nullptr);
    hocketRecv(&neighbour, 1, hocketInt64, before, member.comm, nullptr);
    hocketAllGather(&own, all.data(), 1, hocketInt64, member.comm, nullptr);
    EXPECT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
    EXPECT_EQ(total, 3);
    EXPECT_EQ(root, 77);
    EXPECT_EQ(neighbour, 100 + before);
    EXPECT_EQ(all, (std::array<int64_t, 3>{100, 101, 102}));
  });
}

TEST(Split, ByColorAndKey) {
  run_threads(7, [](Member& member) {
    // Odd and even ranks; within the even ones the order is turned round.
    hocketComm_t part = nullptr;
    const int color = member.rank % 2;
    const int key = color == 0 ? -member.rank : 0;
    ASSERT_EQ(hocketCommSplit(member.comm, color, key, &part, nullptr), hocketSuccess)
        << hocketGetLastError(member.comm);
    if (color == 0) {
      EXPECT_EQ(where(part), (Where{3 - member.rank / 2, 4}));
      EXPECT_EQ(sum(part, member.rank), 12);
    } else {
      EXPECT_EQ(where(part), (Where{member.rank / 2, 3}));
      EXPECT_EQ(sum(part, member.rank), 9);
    }
    EXPECT_EQ(sum(member.comm, 1), 7) << "the parent goes on";
    EXPECT_EQ(hocketCommDestroy(part), hocketSuccess);
    EXPECT_EQ(sum(member.comm, 1), 7);
  });
}

TEST(Split, WithoutColor) {
  run_threads(4, [](Member& member) {
    hocketComm_t part = reinterpret_cast<hocketComm_t>(1);
    const bool stays_out = member.rank == 2;
    ASSERT_EQ(hocketCommSplit(member.comm, stays_out ? HOCKET_SPLIT_NOCOLOR : 5, 0, &part, nullptr), hocketSuccess);
    if (stays_out) {
      EXPECT_EQ(part, nullptr);
      return;
    }
    EXPECT_EQ(where(part), (Where{member.rank == 3 ? 2 : member.rank, 3}));
    EXPECT_EQ(sum(part, 1), 3);
    EXPECT_EQ(hocketCommDestroy(part), hocketSuccess);
  });
}

TEST(Split, OfASplitThatOutlivesItsParents) {
  run_threads(8, [](Member& member) {
    std::array<hocketComm_t, 4> line{member.comm};
    hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
    config.commName = "half";
    for (size_t depth = 0; depth < 3; ++depth) {
      const Where at = where(line[depth]);
      ASSERT_EQ(hocketCommSplit(line[depth], at.rank % 2, at.rank, &line[depth + 1], &config), hocketSuccess)
          << hocketGetLastError(line[depth]);
      EXPECT_EQ(where(line[depth + 1]), (Where{at.rank / 2, at.ranks / 2}));
    }
    EXPECT_EQ(sum(line[3], member.rank), member.rank);
    EXPECT_EQ(hocketCommDestroy(line[0]), hocketSuccess);
    EXPECT_EQ(hocketCommDestroy(line[1]), hocketSuccess);
    member.comm = nullptr;
    EXPECT_EQ(sum(line[2], 1), 2);
    expect_error(hocketBroadcast(nullptr, nullptr, 1, hocketFloat, 9, line[2], nullptr), hocketInvalidArgument, line[2],
                 {"half: rank "});
    EXPECT_EQ(hocketCommDestroy(line[2]), hocketSuccess);
    EXPECT_EQ(hocketCommDestroy(line[3]), hocketSuccess);
  });
}

TEST(Split, AgainAndAgainAndOfManyAtOnce) {
  run_threads(4, [](Member& member) {
    std::vector<hocketComm_t> parts(10);
    for (size_t i = 0; i < parts.size(); ++i) {
      const int color = i % 2 == 0 ? member.rank / 2 : member.rank % 2;
      ASSERT_EQ(hocketCommSplit(member.comm, color, 0, &parts[i], nullptr), hocketSuccess);
    }
    for (const hocketComm_t part : parts) EXPECT_EQ(sum(part, 1), 2);
    for (const hocketComm_t part : parts) EXPECT_EQ(hocketCommDestroy(part), hocketSuccess);
  });
}

TEST(Split, OfCommunicatorsThatOneThreadDrives) {
  std::array<hocketComm_t, 4> comms{};
  std::array<hocketComm_t, 4> parts{};
  ASSERT_EQ(hocketCommInitAll(comms.data(), 4, nullptr), hocketSuccess);
  hocketGroupStart();
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(hocketCommSplit(comms[rank], static_cast<int>(rank / 2), 0, &parts[rank], nullptr), hocketSuccess);
  }
  ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
  for (size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(where(parts[rank]), (Where{static_cast<int>(rank % 2), 2}));
  for (const hocketComm_t comm : parts) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
  for (const hocketComm_t comm : comms) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
}

// What the library says to itself is no call of the user's.
TEST(Split, IsNotForced) {
  for (const char* algorithm : {"recursive_doubling", "window", "all_gather=recursive_doubling"}) {
    hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
    config.algorithm = algorithm;
    run_threads(
        3,
        [](Member& member) {
          hocketComm_t part = nullptr;
          ASSERT_EQ(hocketCommSplit(member.comm, 0, 0, &part, nullptr), hocketSuccess)
              << hocketGetLastError(member.comm);
          EXPECT_EQ(sum(part, 1), 3);
          EXPECT_EQ(hocketCommDestroy(part), hocketSuccess);
          // The same facts as those of the exchange above.
          std::array<char, 8> mine{};
          std::array<char, 24> all{};
          expect_error(hocketAllGather(mine.data(), all.data(), 8, hocketUint8, member.comm, nullptr),
                       hocketInvalidUsage, member.comm,
                       {"config: algorithm: all_gather by ", " is not possible for 3 ranks: it needs "});
        },
        config);
  }
}

TEST(MemStats, SayWhatThePipesHold) {
  run_threads(2, [](Member& member) {
    const auto asked = [&](hocketCommMemStat_t stat) {
      uint64_t bytes = 0;
      EXPECT_EQ(hocketCommMemStats(member.comm, stat, &bytes), hocketSuccess) << hocketGetLastError(member.comm);
      return bytes;
    };
    EXPECT_EQ(asked(hocketStatPipeBudget), uint64_t{4} << 20);
    EXPECT_EQ(sum(member.comm, 1), 2);
    const uint64_t small = asked(hocketStatPipeMemory);
    std::vector<float> values(1 << 20);
    EXPECT_EQ(
        hocketAllReduce(values.data(), values.data(), values.size(), hocketFloat, hocketSum, member.comm, nullptr),
        hocketSuccess);
    const uint64_t large = asked(hocketStatPipeMemory);
    EXPECT_GT(small, 0u);
    EXPECT_GT(large, small);
    EXPECT_LE(large, uint64_t{4} << 20);
    EXPECT_EQ(hocketCommFinalize(member.comm), hocketSuccess);
    EXPECT_EQ(asked(hocketStatPipeBudget), uint64_t{4} << 20);
  });
}

TEST(Barrier, HoldsEveryRankUntilAllHaveCome) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    std::atomic<int> entered = 0;
    run_threads(ranks, [&](Member& member) {
      for (int round = 1; round <= 20; ++round) {
        if ((round + member.rank) % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++entered;
        EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
        EXPECT_GE(entered, round * ranks);
      }
    });
  }
}

TEST(Reductions, NotANumberOnAnyRankStays) {
  run_threads(3, [](Member& member) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    const std::array<float, 3> values{member.rank == 1 ? nan : 1, member.rank == 2 ? infinity : 5,
                                      static_cast<float>(member.rank)};
    for (const auto& [op, second, third] : {std::tuple(hocketMax, infinity, 2.0F),
                                            {hocketMin, 5.0F, 0.0F},
                                            {hocketSum, infinity, 3.0F},
                                            {hocketAvg, infinity, 1.0F}}) {
      std::array<float, 3> result{};
      EXPECT_EQ(hocketAllReduce(values.data(), result.data(), 3, hocketFloat, op, member.comm, nullptr), hocketSuccess);
      EXPECT_NE(result[0], result[0]) << "operation " << op;
      EXPECT_EQ(result[1], second) << "operation " << op;
      EXPECT_EQ(result[2], third) << "operation " << op;
    }
  });
}

// Also where a contribution is only copied. Every call is made twice: the second time it is known, and goes another
// way.
TEST(Reductions, LogicalOnesGiveZeroOrOne) {
  for (const int ranks : {1, 2, 3}) {
    run_threads(ranks, [&](Member& member) {
      for (const size_t count : {size_t{7}, size_t{300'000}}) {
        const std::vector<uint8_t> mine(count * static_cast<size_t>(ranks), 67);
        std::vector<uint8_t> result(mine.size());
        const auto first = [&](const std::function<hocketResult_t(const uint8_t*, uint8_t*)>& call) {
          std::vector<int> found;
          for (int round = 0; round < 2; ++round) {
            std::fill(result.begin(), result.end(), uint8_t{99});
            EXPECT_EQ(call(mine.data(), result.data()), hocketSuccess) << hocketGetLastError(member.comm);
            found.push_back(result[0]);
            EXPECT_EQ(std::vector<uint8_t>(count, result[0]),
                      std::vector<uint8_t>(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(count)));
          }
          EXPECT_EQ(found[0], found[1]);
          return found[0];
        };
        for (const auto& [op, of] : {std::pair(hocketLogicalAnd, std::array{1, 1, 1}),
                                     {hocketLogicalOr, std::array{1, 1, 1}},
                                     {hocketLogicalXor, std::array{1, 0, 1}}}) {
          const int all = of[static_cast<size_t>(ranks - 1)];
          const auto rank = static_cast<size_t>(member.rank);
          SCOPED_TRACE(testing::Message() << "op " << op << " count " << count << " rank " << rank << " of " << ranks);
          const auto with = [&, operation = op](auto call, auto... root) {
            return first([&](const uint8_t* from, uint8_t* to) {
              return call(from, to, count, hocketUint8, operation, root..., member.comm, nullptr);
            });
          };
          EXPECT_EQ(with(hocketAllReduce), all);
          EXPECT_EQ(with(hocketReduceScatter), all);
          EXPECT_EQ(with(hocketReduce, 0), member.rank == 0 ? all : 99);
          EXPECT_EQ(with(hocketScan), of[rank]);
          EXPECT_EQ(with(hocketExScan), member.rank == 0 ? 99 : of[rank - 1]);
        }
      }
    });
  }
}

// NCCL's programs create an operation for every call.
TEST(Reductions, CreatedAndDestroyedWithoutEnd) {
  run_threads(2, [](Member& member) {
    for (int round = 0; round < 2000; ++round) {
      int32_t scalar = round + member.rank;
      int32_t value = 2;
      hocketRedOp_t op;
      ASSERT_EQ(hocketRedOpCreatePreMulSum(&op, &scalar, hocketInt32, hocketScalarHostImmediate, member.comm),
                hocketSuccess);
      ASSERT_EQ(hocketAllReduce(&value, &value, 1, hocketInt32, op, member.comm, nullptr), hocketSuccess);
      ASSERT_EQ(value, 4 * round + 2);
      ASSERT_EQ(hocketRedOpDestroy(op, member.comm), hocketSuccess);
    }
  });
}

TEST(Reductions, AnOperationLivesAsLongAsTheCallsThatUseIt) {
  run_threads(2, [](Member& member) {
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    int32_t scalar = 10;
    std::array<int32_t, 3> values{1, 1, 1};
    for (int32_t& value : values) {
      hocketRedOp_t op;
      ASSERT_EQ(hocketRedOpCreatePreMulSum(&op, &scalar, hocketInt32, hocketScalarHostImmediate, member.comm),
                hocketSuccess);
      ASSERT_EQ(hocketAllReduce(&value, &value, 1, hocketInt32, op, member.comm, hocketQueueStream(queue)),
                hocketSuccess);
      ASSERT_EQ(hocketRedOpDestroy(op, member.comm), hocketSuccess);
      scalar += 1;  // it was copied
    }
    EXPECT_EQ(hocketQueueDestroy(queue), hocketSuccess);
    EXPECT_EQ(values, (std::array<int32_t, 3>{20, 22, 24}));
  });
}

}  // namespace
}  // namespace hocket::test
