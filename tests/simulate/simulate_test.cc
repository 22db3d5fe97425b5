// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Times that can be reckoned by hand, and what the simulator tells besides.
#include "simulate/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "networks.h"
#include "plan/lanes.h"
#include "simulate/goal.h"
#include "simulate/report.h"
#include "simulate/trace.h"

namespace hocket::simulate {
namespace {

using testing::HasSubstr;

Program program(Collective collective, std::string_view algorithm, Rank ranks, const CallShape& shape,
                int32_t lanes = 1) {
  BuildOptions options;
  options.ranks = ranks;
  options.lanes = lanes;
  return *make_program(*find_builder(collective, algorithm), options, shape);
}

Outcome run(const Program& program, const NetworkModel& model, const SimulateOptions& options = {}) {
  return simulate(program, LevelFabric(model, program.ranks()), options);
}

Program goal(std::string_view text) {
  Result<Program> program = read_goal(text);
  EXPECT_TRUE(program.ok()) << program.status().message();
  return std::move(*program);
}

TEST(Simulate, AMessageTakesItsLatencyAndItsBytes) {
  const Outcome outcome = run(program(Collective::kBroadcast, "direct", 2, {.bytes = 4096}), flat());
  EXPECT_TRUE(outcome.finished);
  EXPECT_EQ(outcome.end, kMicrosecond + 4096 * 1000);
  EXPECT_EQ(outcome.messages, 1u);
}

TEST(Simulate, ARingTakesTwiceEveryOtherRank) {
  for (const Rank ranks : {2, 3, 8, 17}) {
    const int64_t part = 640;
    const Outcome outcome = run(program(Collective::kAllReduce, "ring", ranks, {.bytes = part * ranks}), flat());
    EXPECT_EQ(outcome.end, 2 * (ranks - 1) * (kMicrosecond + part * 1000)) << ranks;
  }
}

TEST(Simulate, DoublingTakesTheLogarithm) {
  const Outcome outcome = run(program(Collective::kAllReduce, "recursive_doubling", 16, {.bytes = 1000}), flat());
  EXPECT_EQ(outcome.end, 4 * (kMicrosecond + 1000 * 1000));
}

TEST(Simulate, SeveralLanesFillALinkThatAConnectionDoesNot) {
  NetworkModel model = flat();
  model.levels[0].cost.flow_byte = 4 * kByte;
  constexpr int64_t kBytes = 1 << 20;
  const auto time = [&](int32_t lanes) {
    const auto build = [&](Rank rank) {
      return over_lanes(find_builder(Collective::kBroadcast, "direct")->build({.rank = rank, .ranks = 2}), lanes);
    };
    return run(*make_program(2, build, {.bytes = kBytes, .slice_bytes = 4096}), model).end;
  };
  EXPECT_EQ(time(1), kMicrosecond + 4 * kBytes * 1000);
  EXPECT_EQ(time(2), kMicrosecond + 2 * kBytes * 1000);
  EXPECT_NEAR(static_cast<double>(time(8)), kMicrosecond + kBytes * 1000, 0.05 * kBytes * 1000);  // the link's rate
}

// Three send one message each to a fourth at once: the second meets one that is still on its way, the third two.
TEST(Simulate, APortTakesLongerWhereSeveralMeet) {
  NetworkModel model = flat();
  const Program gather = program(Collective::kGather, "direct", 4, {.bytes = 6000});
  const Picoseconds even = run(gather, model).end;
  EXPECT_EQ(even, kMicrosecond + 3 * 6000 * 1000);
  model.levels[0].cost.incast = 300;
  EXPECT_EQ(run(gather, model).end, even + 6000 * 1000 * 3 / 10 / 2 + 6000 * 1000 * 3 / 10 * 2 / 3);
  // Who is alone on the way takes no longer.
  const Program ring = program(Collective::kAllReduce, "ring", 4, {.bytes = 6400});
  EXPECT_EQ(run(ring, model).end, run(ring, flat()).end);
}

TEST(Simulate, ALinkIsSharedFairly) {
  // Two ranks of one host send to two of another: the hosts' ports carry both, slice by slice.
  const Program pairs = *make_program(
      4,
      [](Rank rank) {
        Plan plan;
        plan.collective = Collective::kAllToAll;
        plan.ranks = 4;
        plan.rank = rank;
        Place chunk{.kind = Place::Kind::kChunk, .buffer = rank < 2 ? Buffer::kSend : Buffer::kRecv, .regions = {{}}};
        Place message{.kind = Place::Kind::kMessage, .peer = (rank + 2) % 4, .regions = {}};
        Step step;
        step.sources = {rank < 2 ? chunk : message};
        step.destinations = {rank < 2 ? message : chunk};
        plan.lanes = {Lane{{step}}};
        return plan;
      },
      {.bytes = 100'000, .slice_bytes = 1000});
  const LevelFabric fabric(hosts(2), 4);
  const Outcome outcome = simulate(pairs, fabric);
  const Picoseconds both = 2 * 100'000 * 1000;
  EXPECT_GE(outcome.end, both);
  EXPECT_LE(outcome.end, both + both / 20);
  const LinkUse& port = outcome.links[*find_link(fabric, "host 0 up")];
  EXPECT_EQ(port.bytes, 200'000);
  EXPECT_EQ(port.busy, both);
}

TEST(Simulate, SlicesInAFullPipeWaitForTheReceiver) {
  const CallShape shape{.bytes = 10'000, .window_bytes = INT64_MAX, .slice_bytes = 1000, .pipe_depth = 1};
  const Outcome outcome = run(program(Collective::kBroadcast, "direct", 2, shape), flat());
  // There and back, but for the last.
  EXPECT_EQ(outcome.end, 10 * (kMicrosecond + 1000 * 1000) + 9 * kMicrosecond);
}

TEST(Simulate, PassesMoveAllBytes) {
  const CallShape shape{.bytes = 100'000, .window_bytes = 768, .slice_bytes = 256};
  const LevelFabric fabric(flat(), 5);
  const Outcome outcome = simulate(program(Collective::kAllReduce, "ring", 5, shape), fabric);
  EXPECT_TRUE(outcome.finished);
  int64_t sent = 0;
  for (LinkId link = 0; link < fabric.links(); link += 2) sent += outcome.links[link].bytes;
  EXPECT_EQ(sent, 2 * 4 * 100'000);
}

TEST(Simulate, ProcessorsTakeTheirTime) {
  NetworkModel model = flat(0, 0);
  model.local = {.call = 7'000, .step = 1'000, .place_byte = 10, .combine_byte = 100, .turn = 0};
  model.levels[0].cost.send = 20'000;
  model.levels[0].cost.receive = 300'000;
  model.levels[0].cost.send_byte = 1'000;
  model.levels[0].cost.receive_byte = 20'000;
  // Rank 1 sends its chunk; rank 0 combines it with its own and writes the result.
  const Outcome outcome = run(program(Collective::kReduce, "direct", 2, {.bytes = 1000}), model);
  const Picoseconds sender = 1'000 + 20'000 + 1000 * (10 + 1'000) / 1000;
  const Picoseconds receiver = 1'000 + 300'000 + 1000 * (2 * 10 + 100 + 20'000) / 1000;
  EXPECT_EQ(outcome.end, 7'000 + sender + receiver);
}

TEST(Simulate, CallsFollowEachOther) {
  SimulateOptions options;
  options.calls = 5;
  const Outcome outcome = run(program(Collective::kAllReduce, "ring", 4, {.bytes = 4 * 640}), flat(), options);
  ASSERT_EQ(outcome.call_ends.size(), 5u);
  EXPECT_EQ(outcome.call_ends[0], 6 * (kMicrosecond + 640 * 1000));
  EXPECT_EQ(outcome.per_call(), outcome.call_ends[0]);
}

TEST(Simulate, RanksTakeTurnsOnTheirCores) {
  NetworkModel model = flat();
  model.cores = 2;
  model.local.turn = 10'000;
  const Program work = goal(
      "num_ranks 5\n"
      "rank 0 { calc 100 }\nrank 1 { calc 100 }\nrank 2 { calc 100 }\nrank 3 { calc 100 }\nrank 4 { calc 100 }\n");
  EXPECT_EQ(run(work, model).end, 3 * (100'000 + 10'000));
  model.cores = 5;
  EXPECT_EQ(run(work, model).end, 100'000);
}

TEST(Simulate, TheSameInputGivesTheSameOutcome) {
  const Program work = program(Collective::kAllToAll, "direct", 12, {.bytes = 5000, .slice_bytes = 512});
  EXPECT_EQ(run(work, hosts(5)).end, run(work, hosts(5)).end);
}

TEST(Simulate, PlansThatDoNotFitAreRefused) {
  const auto lonely = [](Rank rank) {
    Plan plan;
    plan.ranks = 2;
    plan.rank = rank;
    Step step;
    step.sources = {Place{.kind = Place::Kind::kChunk, .regions = {{}}}};
    step.destinations = {Place{.kind = Place::Kind::kMessage, .peer = 1 - rank, .regions = {}}};
    plan.lanes.resize(1);
    if (rank == 0) plan.lanes[0].steps = {step};
    return plan;
  };
  EXPECT_EQ(make_program(2, lonely, {.bytes = 8}).status().message(),
            "rank 0 sends to rank 1 on channel 0, where nothing is received");
}

TEST(Report, NamesTheBusiestLinks) {
  const LevelFabric fabric(hosts(2), 4);
  const Program work = program(Collective::kAllReduce, "ring", 4, {.bytes = 1 << 20});
  const Outcome outcome = simulate(work, fabric);
  const std::string table = link_table(fabric, outcome, 2);
  EXPECT_THAT(table, HasSubstr("host 0 up"));
  EXPECT_THAT(table, HasSubstr("... and 10 more"));
  EXPECT_THAT(summary(work, outcome), HasSubstr("all_reduce ring, 4 ranks, 1048576 bytes: "));
}

TEST(Trace, ShowsEverySliceAndEveryLink) {
  ChromeTrace trace;
  SimulateOptions options;
  options.observer = &trace;
  const LevelFabric fabric(flat(), 3);
  simulate(program(Collective::kAllReduce, "ring", 3, {.bytes = 300}), fabric, options);
  std::ostringstream out;
  trace.write(out, fabric);
  const std::string text = out.str();
  const auto count = [&](std::string_view what) {
    size_t found = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("\"name\":\"step "), 3u * 5);        // steps of each rank
  EXPECT_EQ(count("\"pid\":-1,\"tid\""), 3u * 8 + 6);  // two links for each message; six names
  EXPECT_EQ(count("\"name\":\"rank 2 down\""), 1u);
  EXPECT_FALSE(trace.is_cut());
}

}  // namespace
}  // namespace hocket::simulate
