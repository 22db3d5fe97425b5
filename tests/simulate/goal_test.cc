// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "simulate/goal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "networks.h"
#include "simulate/clock.h"
#include "simulate/simulate.h"

namespace hocket::simulate {
namespace {

Outcome run(const Program& program) { return simulate(program, LevelFabric(flat(), program.ranks())); }

std::string written(const Program& program) {
  std::ostringstream out;
  write_goal(program, {}, out);
  return out.str();
}

// A rank's ports do not know in which order its lanes ran, so one lane and one slice a pass.
TEST(Goal, WhatIsWrittenAndReadTakesTheSameTime) {
  for (const auto& [collective, algorithm] :
       std::initializer_list<std::pair<Collective, std::string_view>>{{Collective::kAllReduce, "ring"},
                                                                      {Collective::kAllReduce, "rabenseifner"},
                                                                      {Collective::kAllReduce, "circulant"},
                                                                      {Collective::kBroadcast, "binomial"},
                                                                      {Collective::kAllToAll, "bruck"},
                                                                      {Collective::kBarrier, "dissemination"},
                                                                      {Collective::kScan, "doubling"}}) {
    for (const Rank ranks : {2, 5, 8, 13}) {
      BuildOptions options;
      options.ranks = ranks;
      const Program program =
          *make_program(*find_builder(collective, algorithm), options, {.bytes = 10'000, .pipe_depth = INT32_MAX});
      const Result<Program> again = read_goal(written(program));
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_EQ(run(*again).end, run(program).end) << algorithm << " of " << ranks;
      EXPECT_EQ(run(*again).messages, run(program).messages) << algorithm << " of " << ranks;
    }
  }
}

TEST(Goal, LanesAndPassesAreWritten) {
  BuildOptions options;
  options.ranks = 3;
  options.lanes = 2;
  const CallShape shape{.bytes = 6000, .window_bytes = 512, .slice_bytes = 512};
  const Program program = *make_program(*find_builder(Collective::kAllReduce, "chain"), options, shape);
  const Result<Program> again = read_goal(written(program));
  ASSERT_TRUE(again.ok()) << again.status().message();
  const Outcome outcome = run(*again);
  EXPECT_TRUE(outcome.finished);
  EXPECT_EQ(outcome.messages, run(program).messages);
}

TEST(Goal, ReadsWhatOthersWrite) {
  const Result<Program> program = read_goal(
      "num_ranks 2\n\n"
      "rank 1 {\n"
      "l1: recv 1000b from 0 tag 7 cpu 1 nic 2\n"
      "l2: calc 500 // half a microsecond\n"
      "l2 requires l1\n"
      "}\n"
      "/* the other\n one */ rank 0 {\n"
      "send 1000b to 1 tag 7\n"
      "}\n");
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(run(*program).end, kMicrosecond + 1000 * 1000 + 500 * 1000);
}

TEST(Goal, OperationsThatRequireNothingRunAtOnce) {
  const Result<Program> program = read_goal("num_ranks 1\nrank 0 {\na: calc 5\nb: calc 7\na requires b\n}\n");
  EXPECT_EQ(run(*program).end, 12'000);
}

TEST(Goal, WrongTextsAreRefusedByLine) {
  for (const auto& [text, reason] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"", "line 1: '' where 'num_ranks' belongs"},
           {"num_ranks 0", "line 1: the number of ranks is '0', not a number from 1 to 262144"},
           {"num_ranks 99999999999999999999", "line 1: the number of ranks is '99999999999999999999', not a number"},
           {"num_ranks 1\nrank 1 {}", "line 2: the rank is '1', not a number from 0 to 0"},
           {"num_ranks 1\nrank 0 {\ncalc 1", "line 3: the text ends within a rank"},
           {"num_ranks 1\nrank 0 {\ncalc 1}\nrank 0 {}", "line 4: rank 0 is there twice"},
           {"num_ranks 2\nrank 0 {\nsend 8 to 1\n}", "line 3: a length ends in 'b'"},
           {"num_ranks 2\nrank 0 {\nsend 8b from 1\n}", "line 3: 'from' where 'to' belongs"},
           {"num_ranks 2\nrank 0 {\nrecv 8b from -1\n}", "line 3: the peer is '-1', not a number from 0 to 1"},
           {"num_ranks 1\nrank 0 {\na: calc 1\na: calc 2\n}", "line 4: label 'a' is there twice"},
           {"num_ranks 1\nrank 0 {\na: calc 1\na requires b\n}", "line 4: label 'b' is not known"},
           {"num_ranks 1\nrank 0 {\na: calc 1\na irequires a\n}", "line 4: 'irequires' cannot be simulated"},
           {"num_ranks 1\nrank 0 {\na: wait 1\n}", "line 3: 'wait' is no operation"},
           {"num_ranks 2\nrank 0 { send 8b to 1 }", "rank 0 sends to rank 1 on channel 0, where nothing is received"},
       }) {
    EXPECT_THAT(read_goal(text).status().message(), testing::StartsWith(reason)) << text;
  }
}

// The longest messages on the slowest link that may be: 53 days, where reckoning ends, and nothing wraps around.
TEST(Goal, TimesEnd) {
  const Result<Program> program = read_goal(
      "num_ranks 2\nrank 0 { send 1099511627776b to 1 }\nrank 1 {\na: recv 1099511627776b from 0\n"
      "b: calc 4398046511104\nb requires a\n}\n");
  ASSERT_TRUE(program.ok()) << program.status().message();
  const LevelFabric slow(flat(kMicrosecond, kByte * 1000), 2);
  EXPECT_EQ(simulate(*program, slow).end, (int64_t{1} << 40) * 1'000'000 + kMicrosecond + (int64_t{1} << 42) * 1000);
  SimulateOptions options;
  options.faults.slow_links = {{*find_link(slow, "rank 0 up"), kMaxTimesSlower}};
  EXPECT_EQ(simulate(*program, slow, options).end, kForever);
}

TEST(Goal, ACycleIsFoundByRunning) {
  const Outcome outcome =
      run(*read_goal("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n"));
  EXPECT_FALSE(outcome.finished);
  EXPECT_THAT(outcome.stuck, testing::SizeIs(2));
}

}  // namespace
}  // namespace hocket::simulate
