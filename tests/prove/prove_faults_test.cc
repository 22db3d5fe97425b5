// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Faults planted in plans that are right without them: each is rejected, for the right reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "plan/write.h"
#include "prove/prove.h"

namespace hocket {
namespace {

using plan::add;
using plan::at;
using plan::at_all;
using plan::finish;
using plan::first;
using plan::from;
using plan::recv;
using plan::scratch;
using plan::send;
using plan::to;
using testing::AllOf;
using testing::HasSubstr;

using Plans = std::vector<Plan>;

Plans build(Collective collective, std::string_view algorithm, BuildOptions options) {
  Plans plans;
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
    plans.push_back(find_builder(collective, algorithm)->build(options));
  }
  return plans;
}

// Empty plans of one lane each.
Plans blank(Collective collective, Rank ranks, int32_t lanes = 1) {
  Plans plans;
  for (Rank rank = 0; rank < ranks; ++rank) {
    plans.push_back(plan::begin(collective, "sample", {.rank = rank, .ranks = ranks}, lanes));
  }
  return plans;
}

Lane& lane(Plans& plans, size_t rank, size_t number = 0) { return plans[rank].lanes[number]; }
Step& step(Plans& plans, size_t rank, size_t number) { return lane(plans, rank).steps[number]; }
void drop(Plans& plans, size_t rank, size_t number) {
  auto& steps = lane(plans, rank).steps;
  steps.erase(steps.begin() + static_cast<ptrdiff_t>(number));
}

template <typename Matcher>
void expect_rejected(const Plans& plans, const Matcher& message, const ProveOptions& options = {}) {
  const Result<Proof> proof = prove(plans, options);
  ASSERT_FALSE(proof.ok()) << "accepted";
  EXPECT_THAT(proof.status().message(), message);
}

void expect_proved(const Plans& plans, const ProveOptions& options = {}) {
  const Result<Proof> proof = prove(plans, options);
  EXPECT_TRUE(proof.ok()) << proof.status().message();
}

TEST(ProveFaults, DroppedSend) {
  Plans plans = build(Collective::kAllReduce, "circulant", {.ranks = 6});
  drop(plans, 2, 0);
  expect_rejected(plans, AllOf(HasSubstr("deadlock: "), HasSubstr("waits for a message from rank")));
}

TEST(ProveFaults, DroppedReceive) {
  Plans plans = build(Collective::kScatter, "direct", {.ranks = 3});
  lane(plans, 2).steps.clear();
  expect_rejected(plans, HasSubstr("rank 0 lane 0 sends a message that rank 2 never receives"));
}

TEST(ProveFaults, DroppedCopy) {
  Plans plans = build(Collective::kAllToAll, "direct", {.ranks = 3});
  drop(plans, 1, 2);
  expect_rejected(plans, HasSubstr("rank 1 recv[1]: the result never comes"));
}

TEST(ProveFaults, CyclicWait) {
  Plans plans = build(Collective::kAllReduce, "recursive_doubling", {.ranks = 4});
  for (size_t rank = 0; rank < 4; ++rank) std::swap(step(plans, rank, 0), step(plans, rank, 1));
  expect_rejected(plans, AllOf(HasSubstr("deadlock: rank 0 lane 0 step 0 waits for a message from rank 1"),
                               HasSubstr("and so on around")));
}

TEST(ProveFaults, CyclicWaitOverLanes) {
  Plans plans = build(Collective::kAllReduce, "chain", {.ranks = 3});
  lane(plans, 1, 0).steps[0].after = {{.lane = 1, .step = 0}};
  expect_rejected(plans, HasSubstr("rank 1 lane 0 step 0: it waits, over other lanes, for itself"));
  plans = build(Collective::kAllReduce, "chain", {.ranks = 3});
  // The way up waits for the way down, which does not begin before all came up.
  lane(plans, 1, 1).steps[0].after.clear();
  lane(plans, 1, 0).steps[0].after = {{.lane = 1, .step = 0}};
  expect_rejected(plans, HasSubstr("deadlock"));
}

// One lane fills a scratch chunk, another empties it: nothing goes wrong before the next pass.
Plans handed_over() {
  Plans plans = blank(Collective::kAllReduce, 1, 2);
  plans[0].scratch_chunks = 1;
  add(lane(plans, 0, 0), {scratch(0)}, {first(send(0))});
  finish(lane(plans, 0, 1), {recv(0)}, {scratch(0)}).after = {{.lane = 0, .step = 0}};
  return plans;
}

TEST(ProveFaults, ReusedSlot) {
  Plans plans = handed_over();
  expect_rejected(plans,
                  HasSubstr("race: rank 0 lane 0 step 0 and lane 1 step 0 of neighbouring passes touch scratch[0]"));
  // Right as soon as the first lane waits for the second before it begins another pass.
  plans[0].scratch_chunks = 2;
  add(lane(plans, 0, 0), {scratch(1)}, {send(0)}).after = {{.lane = 1, .step = 0}};
  expect_proved(plans);
}

TEST(ProveFaults, RaceOfTwoLanes) {
  Plans plans = handed_over();
  lane(plans, 0, 1).steps[0].after.clear();
  expect_rejected(plans, HasSubstr("race: rank 0 lane 0 step 0 and lane 1 step 0 touch scratch[0]"));

  plans = build(Collective::kAllReduce, "chain", {.ranks = 3});
  expect_proved(plans, {.in_place = true});
  lane(plans, 0, 1).steps[0].after.clear();
  expect_rejected(plans, HasSubstr("race: rank 0 lane 0 step 0 and lane 1 step 0 touch recv[0] at once"));
}

TEST(ProveFaults, MessagesOverOtherRanksOrderLanes) {
  Plans plans = build(Collective::kAllReduce, "chain", {.ranks = 3});
  // In place, rank 1 overwrites its contribution only when it has gone up, over rank 0, and come down.
  lane(plans, 1, 1).steps[0].after.clear();
  expect_proved(plans, {.in_place = true});
  // Two contributions at once, the second of which nothing holds back.
  plans = blank(Collective::kAllReduce, 2, 2);
  for (Plan& plan : plans) {
    const Rank peer = 1 - plan.rank;
    add(plan.lanes[0], {to(peer)}, {first(send(0))});
    plan::Places sources{from(peer), first(send(0))};
    if (plan.rank == 0) std::swap(sources[0], sources[1]);
    finish(plan.lanes[0], {recv(0)}, sources);
    add(plan.lanes[1], {to(peer)}, {});
    add(plan.lanes[1], {}, {from(peer)});
  }
  expect_proved(plans);
  plans[0].scratch_chunks = 1;
  add(lane(plans, 0, 1), {scratch(0)}, {send(0)});
  expect_proved(plans);
  expect_rejected(plans, HasSubstr("race: rank 0 lane 0 step 1 and lane 1 step 2 touch send[0]"), {.in_place = true});
}

// "Swing" without its corrections: peers at distance (1 - (-2)^(s+1)) / 3.
Plans naive_swing(Rank ranks) {
  Plans plans = blank(Collective::kAllReduce, ranks);
  for (Plan& plan : plans) {
    Place own = first(send(0));
    int32_t power = -2;
    for (Rank reach = 1; reach < ranks; reach *= 2, power *= -2) {
      const int32_t distance = (1 - power) / 3;
      const Rank peer = plan::wrapped(plan.rank % 2 == 0 ? plan.rank + distance : plan.rank - distance, ranks);
      add(plan.lanes[0], {to(peer)}, {own});
      add(plan.lanes[0], {recv(0)}, {from(peer), own}).last = 2 * reach >= ranks;
      own = recv(0);
    }
  }
  return plans;
}

TEST(ProveFaults, DoubleCountOfNaiveSwing) {
  for (const Rank ranks : {2, 4, 8, 16, 64}) expect_proved(naive_swing(ranks));
  for (const Rank ranks : {6, 10, 12}) {
    expect_rejected(naive_swing(ranks), AllOf(HasSubstr("counts the contribution of rank"), HasSubstr("twice")));
  }
}

TEST(ProveFaults, WrongDestination) {
  Plans plans = build(Collective::kScatter, "direct", {.ranks = 3});
  std::swap(step(plans, 0, 0).destinations, step(plans, 0, 1).destinations);
  expect_rejected(plans, HasSubstr("need not be as long as"));
  expect_rejected(plans, HasSubstr("rank 1 recv[0]: holds chunk 2 of rank 0, not chunk 1 of rank 0"),
                  {.equal_chunks = true});

  plans = build(Collective::kAllGather, "ring", {.ranks = 4});
  step(plans, 2, 1).destinations[0] = recv(0);
  expect_rejected(plans,
                  HasSubstr("rank 2 lane 0 step 1: chunk 0 of recv[0] need not be as long as chunk 0 of rank 1"));

  plans = build(Collective::kReduce, "direct", {.ranks = 3});
  step(plans, 1, 0).destinations[0] = to(2);
  expect_rejected(plans, HasSubstr("deadlock"));
}

TEST(ProveFaults, Marks) {
  Plans plans = build(Collective::kAllReduce, "ring", {.ranks = 3});
  step(plans, 1, 2).last = false;
  expect_rejected(plans, HasSubstr("recv[1]: the result misses its mark last"));

  plans = build(Collective::kAllReduce, "ring", {.ranks = 3});
  step(plans, 1, 3).last = true;
  expect_rejected(plans, HasSubstr("rank 1 lane 0 step 3: the result of chunk 0 meets the mark last twice"));

  plans = build(Collective::kAllReduce, "ring", {.ranks = 3});
  step(plans, 1, 1).last = true;
  expect_rejected(plans, HasSubstr("rank 1 lane 0 step 1: the step is marked last, but rank 2 is missing in chunk 2"));

  plans = build(Collective::kAllReduce, "ring", {.ranks = 3});
  step(plans, 2, 1).sources[1].first = false;
  expect_rejected(plans, HasSubstr("rank 2 lane 0 step 1: the contribution of rank 2 misses its mark first"));

  plans = build(Collective::kAllReduce, "recursive_doubling", {.ranks = 4});
  step(plans, 0, 2).sources[0].first = true;
  expect_rejected(plans, HasSubstr("recv[0] holds more than a new contribution"));

  plans = build(Collective::kReduce, "direct", {.ranks = 1});
  step(plans, 0, 0).sources[0].first = false;
  expect_rejected(plans, HasSubstr("misses its mark first"));

  plans = build(Collective::kBroadcast, "direct", {.ranks = 2});
  step(plans, 0, 0).sources[0].first = true;
  expect_rejected(plans, HasSubstr("marked first where nothing is reduced"));
  plans = build(Collective::kScan, "chain", {.ranks = 2});
  step(plans, 1, 0).last = true;
  expect_rejected(plans, HasSubstr("marked last where no result has an epilogue"));
}

TEST(ProveFaults, SwappedOperands) {
  Plans plans = build(Collective::kAllReduce, "in_order", {.ranks = 7});
  const ProveOptions ordered{.ordered = true};
  expect_proved(plans, ordered);
  std::swap(step(plans, 1, 0).sources[0], step(plans, 1, 0).sources[1]);
  expect_proved(plans);
  expect_rejected(plans, HasSubstr("its operands combine out of rank order"), ordered);
}

TEST(ProveFaults, PipeDepthExceeded) {
  Plans plans = build(Collective::kAllReduce, "ring", {.ranks = 4});
  for (Plan& plan : plans) plan.depth = 1;
  expect_rejected(plans,
                  AllOf(HasSubstr("pipes that hold 1 message are too short"), HasSubstr("waits for room in the pipe")));
}

TEST(ProveFaults, MessageLongerThanDeclared) {
  Plans plans = build(Collective::kAllReduce, "circulant", {.ranks = 8});
  for (Plan& plan : plans) plan.message_chunks = 3;
  expect_rejected(plans, HasSubstr("a message has 4 chunks, more than the 3 declared"));
}

TEST(ProveFaults, WrongBuffers) {
  Plans plans = build(Collective::kBroadcast, "binomial", {.ranks = 4});
  add(lane(plans, 1), {recv(0)}, {send(0)});
  expect_rejected(plans, HasSubstr("rank 1 lane 0 step 1: reads send[0], which this rank has not"));

  plans = build(Collective::kReduce, "direct", {.ranks = 3});
  add(lane(plans, 1), {recv(0)}, {send(0)});
  expect_rejected(plans, HasSubstr("writes recv[0], which this rank has not"));

  plans = build(Collective::kAllGather, "direct", {.ranks = 3});
  add(lane(plans, 1), {send(0)}, {recv(1)});
  expect_rejected(plans, HasSubstr("writes send[0], which is the caller's"));

  plans = build(Collective::kAllGather, "direct", {.ranks = 3});
  lane(plans, 1).steps.insert(lane(plans, 1).steps.begin(), Step{{recv(2)}, {recv(2)}, false, {}});
  expect_rejected(plans, HasSubstr("reads chunk 2 of recv[2], which holds nothing yet"));
}

TEST(ProveFaults, UnequalLengths) {
  Plans plans = build(Collective::kReduceScatter, "circulant", {.ranks = 6});
  for (Plan& plan : plans) {
    // Partial results side by side from scratch chunk 0 on: fine as long as all chunks are equally long.
    for (Step& step : plan.lanes[0].steps) {
      for (auto* places : {&step.sources, &step.destinations}) {
        for (Place& place : *places) {
          if (place.kind != Place::Kind::kChunk || place.buffer != Buffer::kScratch) continue;
          for (auto& region : place.regions) region.first = plan::wrapped(region.first - plan.rank, 6);
        }
      }
    }
  }
  expect_proved(plans, {.equal_chunks = true});
  expect_rejected(plans, HasSubstr("need not be as long as"));

  plans = build(Collective::kAllReduce, "circulant", {.ranks = 6});
  step(plans, 0, 0).sources[0] = first(send(3, 2));
  expect_rejected(plans, HasSubstr("2 chunks come from rank 0, not 3"));

  plans = build(Collective::kAllReduce, "ring", {.ranks = 4});
  step(plans, 1, 1).sources[1] = first(send(0));
  expect_rejected(plans, HasSubstr("combines chunk"));
}

TEST(ProveFaults, OverwrittenInPlace) {
  // An exclusive scan that stores what comes before it has read its own operand.
  Plans plans = blank(Collective::kExScan, 3);
  add(lane(plans, 0), {to(1)}, {first(send(0))});
  add(lane(plans, 1), {recv(0)}, {from(0)});
  add(lane(plans, 1), {to(2)}, {recv(0), first(send(0))});
  add(lane(plans, 2), {recv(0)}, {from(1)});
  expect_proved(plans);
  expect_rejected(plans, HasSubstr("rank 1 lane 0 step 1: first send[0] holds more"), {.in_place = true});

  // A turn by one chunk: out of place a copy, in place it reads what it has written.
  plans = blank(Collective::kAllToAll, 1);
  plans[0].collective = Collective::kAllReduce;
  plans[0].send_chunks = plans[0].recv_chunks = 2;
  plans[0].scratch_chunks = 2;
  finish(lane(plans, 0), {recv(0, 2)}, {first(send(0, 2))});
  expect_proved(plans, {.in_place = true});
  lane(plans, 0).steps[0].sources[0].regions = {{.first = 1, .count = 1, .stride = 0, .block = 2}};
  expect_rejected(plans, HasSubstr("in place, first send[1..2] overlaps recv[0..1]"), {.in_place = true});
}

TEST(ProveFaults, UntouchedResultIsTouched) {
  Plans plans = build(Collective::kExScan, "chain", {.ranks = 2});
  add(lane(plans, 0), {recv(0)}, {first(send(0))});
  expect_rejected(plans, HasSubstr("rank 0 recv[0]: holds something, though it must stay as it was"));
}

TEST(ProveFaults, BarrierThatSomeLeaveEarly) {
  Plans plans = build(Collective::kBarrier, "dissemination", {.ranks = 5});
  expect_proved(plans);
  // Without the last round.
  for (Plan& plan : plans) {
    plan.lanes[0].steps.resize(2);
    add(plan.lanes[0], {}, {from(plan::wrapped(plan.rank - 2, 5))});
  }
  expect_rejected(plans, HasSubstr("rank 0 may leave the barrier before rank 1 has come"));
}

// ---- Windows --------------------------------------------------------------------------------------------------------

// Reductions on windows begin with these steps: signal all, await all, combine.
constexpr size_t kAwaitAll = 1;
constexpr size_t kCombine = 2;

TEST(ProveFaults, WindowReadBeforeItsRankHasCome) {
  Plans plans = build(Collective::kReduceScatter, "window", {.ranks = 3});
  expect_proved(plans);
  // Rank 1 does not wait for rank 2, whose signal it takes later.
  std::erase(step(plans, 1, kAwaitAll).sources, from(2));
  lane(plans, 1).steps.insert(lane(plans, 1).steps.begin() + kCombine + 1, Step{{from(2)}, {}, false, {}});
  expect_rejected(plans, AllOf(HasSubstr("window race: rank 1 lane 0 step 2 reads first send[1] at 2"),
                               HasSubstr("rank 2 may not have begun the call")));
}

TEST(ProveFaults, WindowReadAfterItsRankHasGone) {
  for (const auto& [collective, reads] : {std::pair{Collective::kReduceScatter, "first send[1] at 0"},
                                          {Collective::kAllGather, "recv[0] at 0"},
                                          {Collective::kAllReduce, "recv[0] at 0"}}) {
    Plans plans = build(collective, "window", {.ranks = 3});
    // All but rank 0 end by awaiting all, which keeps them; nobody keeps rank 0.
    lane(plans, 0).steps.pop_back();
    for (const size_t rank : {1u, 2u}) {
      auto& steps = lane(plans, rank).steps;
      std::erase(steps[steps.size() - 2].destinations, to(0));
    }
    expect_rejected(plans, AllOf(HasSubstr(reads), HasSubstr("rank 0 may have ended the call")));
  }
}

TEST(ProveFaults, WindowReadBeforeItIsWritten) {
  Plans plans = build(Collective::kBroadcast, "window", {.ranks = 2});
  // Rank 1 awaits and reads one part after the other.
  std::swap(step(plans, 1, 2), step(plans, 1, 3));
  expect_rejected(plans, AllOf(HasSubstr("writes recv[1]"), HasSubstr("rank 1 lane 0 step 2 may touch it at once")));
}

TEST(ProveFaults, WrongWindow) {
  Plans plans = build(Collective::kAllReduce, "window", {.ranks = 3});
  step(plans, 1, kCombine).sources[0].regions[0].first = 2;
  expect_rejected(plans, HasSubstr("combines chunk 2 with chunk 1"));

  plans = build(Collective::kAllReduce, "window", {.ranks = 3});
  step(plans, 1, kCombine).sources[0].peer = 2;
  expect_rejected(plans, HasSubstr("counts the contribution of rank 2 to chunk 1 twice"));

  plans = build(Collective::kAllGather, "window", {.ranks = 3});
  step(plans, 1, 3).sources[0].regions[0].first = 0;
  expect_rejected(plans, HasSubstr("rank 1 lane 0 step 3"));

  plans = build(Collective::kBroadcast, "window", {.ranks = 2});
  step(plans, 1, 1).sources[0].buffer = Buffer::kSend;
  expect_proved(plans);
  plans = build(Collective::kReduceScatter, "window", {.ranks = 2});
  step(plans, 1, kCombine).destinations.push_back(at(0, send(1)));
  expect_rejected(plans, HasSubstr("writes send[1] at 0, which is the caller's"));
}

// Two ranks write to all: the other way to reduce, which the verifier must be able to judge too.
TEST(ProveFaults, WindowsThatArePutTo) {
  Plans plans = blank(Collective::kAllReduce, 2);
  for (Plan& plan : plans) {
    plan.send_chunks = plan.recv_chunks = 2;
    const Rank peer = 1 - plan.rank;
    Lane& own = plan.lanes[0];
    add(own, {to(peer)}, {});
    add(own, {}, {from(peer)});
    finish(own, {recv(plan.rank), at(peer, recv(plan.rank))},
           at_all({.rank = plan.rank, .ranks = 2}, first(send(plan.rank))));
    add(own, {to(peer)}, {});
    add(own, {}, {from(peer)});
  }
  expect_proved(plans);
  expect_proved(plans, {.in_place = true});
  Plans early = plans;
  for (Plan& plan : early) {
    std::swap(plan.lanes[0].steps[1], plan.lanes[0].steps[2]);
    std::swap(plan.lanes[0].steps[0], plan.lanes[0].steps[1]);
  }
  expect_rejected(early, HasSubstr("may not have begun the call"));
  for (Plan& plan : plans) plan.lanes[0].steps.resize(2);
  for (Plan& plan : plans) {
    const Rank peer = 1 - plan.rank;
    add(plan.lanes[0], {recv(0, 2)}, {first(send(0, 2))});
    add(plan.lanes[0], {at(peer, recv(0))}, {recv(0)});
    add(plan.lanes[0], {to(peer)}, {});
    add(plan.lanes[0], {}, {from(peer)});
  }
  expect_rejected(plans, HasSubstr("may touch it at once"));
}

TEST(ProveFaults, LanesThatDoNotMeet) {
  Plans plans = build(Collective::kBroadcast, "direct", {.ranks = 3, .lanes = 2});
  plans[2].lanes.resize(1);
  expect_rejected(plans, HasSubstr("rank 0 lane 1 step 0: rank 2 has no lane 1"));
}

TEST(ProveFaults, PlansThatAreNotOfOneCall) {
  Plans plans = build(Collective::kAllReduce, "ring", {.ranks = 3});
  plans[2].depth = 3;
  expect_rejected(plans, HasSubstr("the heads of the plans of ranks 0 and 2 differ"));
  plans = build(Collective::kAllReduce, "ring", {.ranks = 3});
  std::swap(plans[0], plans[1]);
  expect_rejected(plans, HasSubstr("plan 0 of 3 is that of rank 1 of 3"));
  plans.clear();
  expect_rejected(plans, HasSubstr("no plans"));
  plans = build(Collective::kAllGather, "direct", {.ranks = 3});
  for (Plan& plan : plans) plan.recv_chunks = 4;
  expect_rejected(plans, HasSubstr("rank 0: 1 send and 4 receive chunks, not 1 and 3"));
  const Result<Proof> proof = prove(*find_builder(Collective::kAllGather, "recursive_doubling"), {.ranks = 6});
  EXPECT_THAT(proof.status().message(), HasSubstr("all_gather recursive_doubling does not fit 6 ranks"));
}

}  // namespace
}  // namespace hocket
