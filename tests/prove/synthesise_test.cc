// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Synthesised plans are right on whatever wires, and near the bound where these are even.
#include "plan/synthesise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <random>
#include <set>
#include <tuple>

#include "plan/gathering.h"
#include "prove/prove.h"

namespace hocket {
namespace {

constexpr std::array kCollectives = {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce};

void join(std::vector<Wire>& wires, Rank a, Rank b, int64_t time = 1) {
  wires.push_back({a, b, time});
  wires.push_back({b, a, time});
}

std::vector<Wire> ring(Rank ranks) {
  std::vector<Wire> wires;
  for (Rank rank = 0; rank < ranks; ++rank) join(wires, rank, (rank + 1) % ranks);
  return wires;
}

// Rows and columns that go around.
std::vector<Wire> torus(Rank rows, Rank columns) {
  std::vector<Wire> wires;
  for (Rank row = 0; row < rows; ++row) {
    for (Rank column = 0; column < columns; ++column) {
      const Rank self = row * columns + column;
      join(wires, self, row * columns + (column + 1) % columns);
      join(wires, self, (row + 1) % rows * columns + column);
    }
  }
  return wires;
}

std::vector<Wire> all_to_all(Rank ranks) {
  std::vector<Wire> wires;
  for (Rank a = 0; a < ranks; ++a) {
    for (Rank b = 0; b < a; ++b) join(wires, a, b);
  }
  return wires;
}

// Without a tenth of its wires, others at a third of their rate.
std::vector<Wire> degraded(std::vector<Wire> wires, uint32_t seed) {
  std::mt19937 random(seed);
  std::erase_if(wires, [&](const Wire&) { return random() % 10 == 0; });
  for (Wire& wire : wires) wire.time = random() % 10 == 0 ? 3 : 1;
  return wires;
}

// No all-gather is faster: every rank takes all blocks but its own.
double bound(Rank ranks, const std::vector<Wire>& wires) {
  std::vector<double> rate(static_cast<size_t>(ranks), 0);
  for (const Wire& wire : wires) rate[static_cast<size_t>(wire.to)] += 1.0 / static_cast<double>(wire.time);
  return (ranks - 1) / *std::min_element(rate.begin(), rate.end());
}

void expect_right(Rank ranks, const std::vector<Wire>& wires, const char* title) {
  std::set<std::pair<Rank, Rank>> joined;
  for (const Wire& wire : wires) joined.insert({wire.from, wire.to});
  for (const Collective collective : kCollectives) {
    const Result<Synthesis> made = synthesise(collective, ranks, wires);
    ASSERT_TRUE(made.ok()) << title << ": " << made.status().message();
    for (const bool in_place : {false, true}) {
      const Result<Proof> proof = prove(made->plans, {.in_place = in_place, .rendezvous = false});
      EXPECT_TRUE(proof.ok()) << title << ", " << name(collective) << ": " << proof.status().message();
    }
    for (const Plan& plan : made->plans) {
      for (const Step& step : plan.lanes[0].steps) {
        for (const Place& place : step.destinations) {
          EXPECT_TRUE(place.kind == Place::Kind::kChunk || joined.contains({plan.rank, place.peer}))
              << title << ": no wire from " << plan.rank << " to " << place.peer;
        }
      }
    }
  }
}

TEST(Synthesise, AnyWiresGiveProvedPlans) {
  for (const Rank ranks : {2, 3, 5, 8, 13}) {
    expect_right(ranks, ring(ranks), "ring");
    expect_right(ranks, all_to_all(ranks), "all to all");
  }
  for (uint32_t seed = 0; seed < 20; ++seed) expect_right(24, degraded(torus(4, 6), seed), "degraded torus");
  std::vector<Wire> one_way;
  for (Rank rank = 0; rank < 7; ++rank) one_way.push_back({rank, (rank + 1) % 7, 1 + rank % 3});
  expect_right(7, one_way, "one way");
  std::vector<Wire> beside = ring(4);
  join(beside, 0, 1);
  join(beside, 0, 1);
  expect_right(4, beside, "wires beside each other");
  for (size_t i = 0; i < beside.size(); ++i) beside[i].time = 1 + static_cast<int64_t>(i % 3);
  expect_right(4, beside, "wires beside each other, some slower");
}

// Every rank has a link up to a switch, and one down from it.
std::vector<Wire> around_switch(Rank ranks, int64_t time = 1) {
  std::vector<Wire> wires;
  for (Rank distance = 1; distance < ranks; ++distance) {
    for (Rank from = 0; from < ranks; ++from) {
      const Rank to = (from + distance) % ranks;
      wires.push_back({from, to, time, {{2 * from, time}, {2 * to + 1, time}}});
    }
  }
  return wires;
}

TEST(Synthesise, LinksOfASwitchAreShared) {
  for (const Rank ranks : {2, 3, 8, 16}) {
    const std::vector<Wire> wires = around_switch(ranks);
    expect_right(ranks, wires, "switch");
    // Each takes in what the others have, one after the other, and no link stands still.
    EXPECT_DOUBLE_EQ(synthesise(Collective::kAllGather, ranks, wires)->time, ranks - 1) << ranks;
  }
  std::vector<Wire> wires = around_switch(6, 2);
  for (Wire& wire : wires) {
    if (wire.from == 2) wire.ports[0].time = 1;  // twice as fast up
    if (wire.to == 4) wire.time = wire.ports[1].time = 3;
  }
  expect_right(6, wires, "switch with a slow link");
  EXPECT_GE(synthesise(Collective::kAllGather, 6, wires)->time, 5 * 3);
  EXPECT_LE(synthesise(Collective::kAllGather, 6, wires)->time, 1.2 * 5 * 3);
}

// Two rings of different neighbours, and nothing else: whatever else goes is slower. A tree, and nothing else.
TEST(Synthesise, RingsAndTreesOfASearchAreFollowedWhereTheyAreBest) {
  const std::vector<std::vector<Rank>> rings = {{0, 1, 2, 3, 4, 5, 6}, {0, 2, 4, 6, 1, 3, 5}};
  const std::vector<std::vector<Rank>> trees = {{0, 0, 0, 1, 1, 2, 2}};
  std::vector<Wire> circles;
  for (const auto& ring : rings) {
    for (size_t i = 0; i < ring.size(); ++i) circles.push_back({ring[i], ring[(i + 1) % ring.size()], 10});
  }
  std::vector<Wire> branches;
  for (Rank rank = 1; rank < 7; ++rank) join(branches, rank, trees[0][static_cast<size_t>(rank)], 10);
  for (const Collective collective : kCollectives) {
    const double least = (collective == Collective::kAllReduce ? 2 : 1) * 6 * 10.0;
    const Result<Synthesis> around = synthesise(collective, 7, circles, {.rings = rings, .trees = trees});
    const Result<Synthesis> down = synthesise(collective, 7, branches, {.rings = rings, .trees = trees});
    ASSERT_TRUE(around.ok()) << around.status().message();
    ASSERT_TRUE(down.ok()) << down.status().message();
    EXPECT_DOUBLE_EQ(around->time, least / 2) << name(collective);
    EXPECT_LE(down->time, least * 1.35) << name(collective);
    EXPECT_TRUE(prove(around->plans, {.rendezvous = false}).ok()) << name(collective);
    EXPECT_TRUE(prove(down->plans, {.rendezvous = false}).ok()) << name(collective);
  }
  const std::vector<std::vector<Rank>> wrong = {{0, 1, 2}};
  EXPECT_EQ(synthesise(Collective::kAllGather, 7, circles, {.rings = wrong}).status().message(),
            "a ring or tree is not one of 7 ranks");
}

// Parts keep to their tracks: without a search's help the same wires take longer.
TEST(Synthesise, EveryTrackAloneGivesProvedPlans) {
  const std::vector<std::vector<Rank>> rings = {{4, 1, 3, 0, 2}, {0, 1, 2, 3, 4}};
  const std::vector<std::vector<Rank>> trees = {{2, 2, 2, 0, 3}, {1, 1, 1, 1, 1}, {4, 0, 1, 2, 4}};
  for (const Attempt& attempt :
       {Attempt{2, {.rings = rings}}, Attempt{2, {.rings = rings}, true}, Attempt{3, {.trees = trees}}}) {
    const std::vector<Wire> wires = all_to_all(5);
    const Result<std::vector<Transfer>> transfers = gather(5, wires, attempt);
    ASSERT_TRUE(transfers.ok()) << transfers.status().message();
    EXPECT_EQ(transfers->size(), static_cast<size_t>(5 * 4 * attempt.parts));
    for (const Transfer& transfer : *transfers) {
      const auto track = static_cast<size_t>(transfer.part % attempt.parts);
      const auto is_next = [&](Rank one, Rank other) {
        const auto& ring = rings[track];
        return ring[static_cast<size_t>(std::ranges::find(ring, one) - ring.begin() + 1) % 5] == other;
      };
      const auto is_branch = [&](Rank one, Rank other) { return trees[track][static_cast<size_t>(one)] == other; };
      const Rank from = attempt.backwards ? transfer.to : transfer.from;
      const Rank to = attempt.backwards ? transfer.from : transfer.to;
      EXPECT_TRUE(attempt.along.trees.empty() ? is_next(from, to) : is_branch(from, to) || is_branch(to, from))
          << transfer.part << " from " << from << " to " << to;
    }
  }
}

TEST(Synthesise, EvenWiresAreUsedToTheFull) {
  for (const Rank ranks : {4, 8, 9, 16}) {
    // Blocks cut in two save half a step where an even number is in the ring.
    EXPECT_DOUBLE_EQ(synthesise(Collective::kAllGather, ranks, ring(ranks))->time, (ranks - 1) / 2.0) << ranks;
    EXPECT_DOUBLE_EQ(synthesise(Collective::kAllGather, ranks, all_to_all(ranks))->time, 1) << ranks;
    EXPECT_DOUBLE_EQ(synthesise(Collective::kAllReduce, ranks, all_to_all(ranks))->time, 2) << ranks;
  }
  for (const auto& [rows, columns] : {std::pair{4, 4}, {4, 8}, {8, 8}, {5, 7}}) {
    const std::vector<Wire> wires = torus(rows, columns);
    const double time = synthesise(Collective::kAllGather, rows * columns, wires)->time;
    EXPECT_LE(time, 1.35 * bound(rows * columns, wires)) << rows << " x " << columns;
  }
}

// A second for 128 ranks is what it may take of one processor.
TEST(Synthesise, AHundredAndTwentyEightRanksAreQuick) {
  const std::vector<Wire> wires = degraded(torus(8, 16), 7);
  const std::clock_t begin = std::clock();
  const Result<Synthesis> made = synthesise(Collective::kAllReduce, 128, wires);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_TRUE(made.ok()) << made.status().message();
  std::printf("all_reduce of 128 ranks on a degraded torus: %.2f s, %.2f times the bound\n", seconds,
              made->time / (2 * bound(128, wires)));
  EXPECT_LT(seconds, 5);
  EXPECT_TRUE(prove(made->plans, {.rendezvous = false}).ok());
  const std::clock_t again = std::clock();
  const Result<Synthesis> around = synthesise(Collective::kAllReduce, 128, around_switch(128));
  const double more = static_cast<double>(std::clock() - again) / CLOCKS_PER_SEC;
  ASSERT_TRUE(around.ok()) << around.status().message();
  std::printf("... around a switch: %.2f s, %.2f times the bound\n", more, around->time / (2 * 127));
  EXPECT_LT(more, 5);
  EXPECT_LE(around->time, 1.001 * 2 * 127);
}

TEST(Synthesise, WhatCannotBeIsNamed) {
  const auto failure = [](Rank ranks, const std::vector<Wire>& wires) {
    return synthesise(Collective::kAllGather, ranks, wires).status().message();
  };
  EXPECT_EQ(failure(3, {{0, 1, 1}, {1, 0, 1}, {2, 0, 1}}), "no wires lead from rank 0 to rank 2");
  EXPECT_THAT(failure(2, {{0, 2, 1}}), testing::HasSubstr("wire 0 from 0 to 2 of time 1: not two of 2 ranks"));
  EXPECT_THAT(failure(2, {{0, 1, 0}}), testing::HasSubstr("or no time"));
  EXPECT_THAT(failure(2, {{0, 1, 2, {{0, 3}}}}), testing::HasSubstr("goes through port 0 in 3 of 2"));
  EXPECT_THAT(failure(2, {{0, 1, 2, {{-1, 1}}}}), testing::HasSubstr("goes through port -1"));
  EXPECT_THAT(failure(1000, {}), testing::HasSubstr("1000 ranks, not 2 to 256"));
  EXPECT_THAT(synthesise(Collective::kBarrier, 2, ring(2)).status().message(), testing::HasSubstr("barrier cannot be"));
}

}  // namespace
}  // namespace hocket
