// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Counts and factors of every program, as nccl-tests has them.
#include "perf/collective.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hocket::perf {
namespace {

constexpr size_t kFloat = 4;

Shape shape_of(const Collective& collective, size_t bytes, int ranks) {
  return collective.shape(bytes / kFloat, kFloat, ranks, Traffic());
}

TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(kAllReduce.bus_factor(4), 1.5);
  for (const Collective* collective : {&kAllGather, &kReduceScatter, &kAllToAll, &kAllToAllV, &kGather, &kScatter}) {
    EXPECT_DOUBLE_EQ(collective->bus_factor(4), 0.75) << collective->program;
  }
  for (const Collective* collective : {&kBroadcast, &kReduce, &kSendRecv}) {
    EXPECT_DOUBLE_EQ(collective->bus_factor(4), 1) << collective->program;
  }
  EXPECT_DOUBLE_EQ(kAllReduce.bus_factor(1), 0);
}

TEST(Shape, OfWholeBuffers) {
  for (const Collective* collective : {&kAllReduce, &kBroadcast, &kReduce, &kSendRecv}) {
    const Shape shape = shape_of(*collective, 1000, 3);
    EXPECT_EQ(shape.send, 250u) << collective->program;
    EXPECT_EQ(shape.receive, 250u) << collective->program;
    EXPECT_EQ(shape.count, 250u) << collective->program;
  }
}

// 250 floats among 3 ranks: 83, rounded down to a multiple of 16 bytes.
TEST(Shape, OfPieces) {
  const Shape gathered = shape_of(kAllGather, 1000, 3);
  EXPECT_EQ(gathered.count, 80u);
  EXPECT_EQ(gathered.send, 80u);
  EXPECT_EQ(gathered.receive, 240u);
  EXPECT_EQ(gathered.send_in_place, 80u);
  const Shape scattered = shape_of(kReduceScatter, 1000, 3);
  EXPECT_EQ(scattered.send, 240u);
  EXPECT_EQ(scattered.receive, 80u);
  EXPECT_EQ(scattered.receive_in_place, 80u);
  const Shape exchanged = shape_of(kAllToAll, 1000, 3);
  EXPECT_EQ(exchanged.send, 240u);
  EXPECT_EQ(exchanged.receive, 240u);
  EXPECT_EQ(shape_of(kAllGather, 32, 3).count, 0u);
}

TEST(Traffic, GrowsWithDistanceAndBalances) {
  const Traffic traffic;
  EXPECT_EQ(traffic.bytes(0, 0, 4, 960), 0u);
  EXPECT_EQ(traffic.bytes(0, 1, 4, 960), 160u);
  EXPECT_EQ(traffic.bytes(0, 2, 4, 960), 320u);
  EXPECT_EQ(traffic.bytes(0, 3, 4, 960), 480u);
  EXPECT_EQ(traffic.bytes(3, 0, 4, 960), 160u);
  EXPECT_EQ(Traffic{0}.bytes(0, 3, 4, 960), 240u);
  EXPECT_EQ(traffic.bytes(0, 0, 1, 970), 960u);
}

// What the others' counts say that they send here is what is expected from them.
TEST(Traffic, FitsWhatIsExpected) {
  constexpr int kRanks = 5;
  const Traffic traffic{0.7};
  constexpr size_t kTotal = 4000;
  for (int rank = 0; rank < kRanks; ++rank) {
    Role role{.rank = rank, .ranks = kRanks, .element_bytes = kFloat, .shape = {}, .traffic = {}};
    role.traffic = traffic_counts(traffic, rank, kRanks, kTotal, kFloat);
    const Parts parts = kAllToAllV.receives(role);
    ASSERT_EQ(parts.size(), size_t{kRanks});
    for (int peer = 0; peer < kRanks; ++peer) {
      const TrafficCounts theirs = traffic_counts(traffic, peer, kRanks, kTotal, kFloat);
      const Part& part = parts[static_cast<size_t>(peer)];
      EXPECT_EQ(part.rank, peer);
      EXPECT_EQ(part.first, theirs.send_from[static_cast<size_t>(rank)]);
      EXPECT_EQ(part.count, theirs.send[static_cast<size_t>(rank)]);
    }
  }
}

}  // namespace
}  // namespace hocket::perf
