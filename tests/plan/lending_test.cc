// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/lending.h"

#include <gtest/gtest.h>

#include "plan/builders.h"
#include "plan/write.h"

namespace hocket {
namespace {

using plan::add;
using plan::at;
using plan::from;
using plan::recv;
using plan::scratch;
using plan::send;
using plan::to;

Plan built(Collective collective, std::string_view algorithm, Rank rank, bool in_place) {
  const Builder* builder = find_builder(collective, algorithm);
  EXPECT_NE(builder, nullptr) << algorithm;
  return builder->build({.rank = rank, .ranks = 5, .root = 1, .in_place = in_place});
}

// Rank 0 of 3, all-gather, whose only lane a test writes.
class Written : public testing::Test {
 protected:
  Written() : plan_(plan::begin(Collective::kAllGather, "test", {.ranks = 3}, 2)) { plan_.recv_chunks = 3; }
  Lane& lane(size_t number = 0) { return plan_.lanes[number]; }

  Plan plan_;
};

TEST(Lending, WhatOnlyReadsItsBuffersLends) {
  for (Rank rank = 0; rank < 5; ++rank) {
    for (const bool in_place : {false, true}) {
      for (const auto* algorithm : {"direct", "ring", "sparbit"})
        EXPECT_TRUE(may_lend(built(Collective::kAllGather, algorithm, rank, in_place), in_place)) << algorithm;
      for (const auto* algorithm : {"direct", "chain", "binomial"})
        EXPECT_TRUE(may_lend(built(Collective::kBroadcast, algorithm, rank, in_place), in_place)) << algorithm;
      EXPECT_TRUE(may_lend(built(Collective::kGather, "direct", rank, in_place), in_place && rank == 1));
      EXPECT_TRUE(may_lend(built(Collective::kScatter, "direct", rank, in_place), in_place && rank == 1));
    }
    EXPECT_TRUE(may_lend(built(Collective::kAllToAll, "direct", rank, false), false));
  }
}

TEST(Lending, WhatIsReceivedWhereItWasSentFromDoesNot) {
  for (const auto* algorithm : {"direct", "pairwise"}) {
    EXPECT_FALSE(may_lend(built(Collective::kAllToAll, algorithm, 2, true), true)) << algorithm;
  }
}

TEST(Lending, ReductionsDoNot) {
  EXPECT_FALSE(may_lend(built(Collective::kAllReduce, "ring", 2, false), false));
  EXPECT_FALSE(may_lend(built(Collective::kReduce, "direct", 2, false), false));
}

TEST_F(Written, ChunksThatAreWrittenBeforeTheyAreSentLend) {
  add(lane(), {recv(1)}, {from(1)});
  add(lane(), {to(2)}, {recv(1)});
  EXPECT_TRUE(may_lend(plan_, false));
}

TEST_F(Written, ChunksThatAreWrittenAgainDoNot) {
  add(lane(), {recv(1)}, {from(1)});
  add(lane(), {to(2)}, {recv(1)});
  add(lane(), {recv(1)}, {send(0)});
  EXPECT_FALSE(may_lend(plan_, false));
}

TEST_F(Written, ChunksThatAreForwardedAndWrittenAgainDoNot) {
  add(lane(), {recv(1), to(2)}, {from(1)});
  add(lane(), {recv(1)}, {from(2)});
  EXPECT_FALSE(may_lend(plan_, false));
}

TEST_F(Written, ChunksThatAnotherLaneWritesDoNot) {
  add(lane(0), {recv(1)}, {from(1)});
  add(lane(1), {to(2)}, {recv(1)});
  EXPECT_FALSE(may_lend(plan_, false));
}

TEST_F(Written, OneBufferMakesTwoNamesOneChunk) {
  add(lane(), {to(2)}, {send(0)});
  add(lane(), {recv(0)}, {from(2)});
  EXPECT_TRUE(may_lend(plan_, false));
  EXPECT_FALSE(may_lend(plan_, true));
}

TEST_F(Written, ACopyOntoItselfChangesNothing) {
  add(lane(), {to(2)}, {send(0)});
  add(lane(), {recv(0)}, {send(0)});
  EXPECT_TRUE(may_lend(plan_, true));
}

TEST_F(Written, ScratchMemoryIsNobodysBusiness) {
  plan_.scratch_chunks = 1;
  add(lane(), {to(2)}, {scratch(0)});
  add(lane(), {scratch(0)}, {from(2)});
  EXPECT_TRUE(may_lend(plan_, false));
}

// ---- Step by step

// For each step of the first lane that sends: whether what it sends stays.
std::string what_stays(Plan plan, bool in_place) {
  mark_what_stays(plan, in_place);
  std::string marks;
  for (const Step& step : plan.lanes[0].steps) {
    if (std::ranges::any_of(step.destinations, is_message)) marks += step.stays ? 's' : '-';
  }
  return marks;
}

// Rank 2 of 5. By a ring it sends a contribution, three partial sums, which lie nowhere, its own sum, and passes on
// three.
TEST(Lending, SumsThatAreCompleteStay) {
  EXPECT_EQ(what_stays(built(Collective::kAllReduce, "ring", 2, false), false), "ssssssss");
  EXPECT_EQ(what_stays(built(Collective::kAllReduce, "ring", 2, true), true), "-sssssss");
}

TEST_F(Written, EachStepIsForItself) {
  add(lane(), {to(2)}, {send(0)});
  add(lane(), {recv(1), to(2)}, {from(1)});
  add(lane(), {recv(1)}, {from(2)});
  add(lane(), {recv(0)}, {from(2)});
  EXPECT_EQ(what_stays(plan_, false), "s-");
  EXPECT_EQ(what_stays(plan_, true), "--");
}

TEST_F(Written, SumsOfWhatIsWrittenBeforeStay) {
  add(lane(), {recv(0)}, {send(0)});
  add(lane(), {recv(0), to(2)}, {recv(0), from(1)});
  add(lane(), {recv(1), to(2)}, {recv(1), from(1)});
  add(lane(), {recv(1)}, {recv(1), from(1)});
  EXPECT_EQ(what_stays(plan_, false), "s-");
}

TEST_F(Written, WhatIsDividedWhereItLiesDoesNotStay) {
  add(lane(), {to(2)}, {recv(0)});
  plan::finish(lane(), {recv(0)}, {recv(0)});
  EXPECT_EQ(what_stays(plan_, false), "-");
}

TEST_F(Written, WhatGoesIntoWindowsStaysNowhere) {
  add(lane(), {to(2)}, {send(0)});
  add(lane(), {at(1, recv(0))}, {send(0)});
  EXPECT_EQ(what_stays(plan_, false), "-");
}

TEST_F(Written, WhoOnlySendsDoesNothingBeside) {
  add(lane(), {to(2)}, {send(0)});
  add(lane(), {recv(0)}, {send(0)});
  EXPECT_TRUE(works_beside(plan_, false));
  EXPECT_FALSE(works_beside(plan_, true));
  add(lane(), {recv(1)}, {from(1)});
  EXPECT_TRUE(works_beside(plan_, true));
}

}  // namespace
}  // namespace hocket
