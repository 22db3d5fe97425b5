// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "networks.h"
#include "simulate/simulate.h"

namespace hocket::simulate {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Rank kRanks = 6;

Program ring() {
  BuildOptions options;
  options.ranks = kRanks;
  return *make_program(*find_builder(Collective::kAllReduce, "ring"), options, {.bytes = 64 * 60});
}

class SimulateFaults : public testing::Test {
 protected:
  Outcome run() { return simulate(ring_, fabric_, options_); }

  const Program ring_ = ring();
  const LevelFabric fabric_{flat(), kRanks};
  SimulateOptions options_;
};

TEST_F(SimulateFaults, ASlowLinkHoldsUpAll) {
  options_.faults.slow_links = {{*find_link(fabric_, "rank 2 up"), 11}};
  // Ten messages go over it, one after the other.
  EXPECT_EQ(run().end, 10 * 11 * 640 * 1000 + kMicrosecond);
}

TEST_F(SimulateFaults, ALateRankHoldsUpAllByItsLateness) {
  const Picoseconds healthy = run().end;
  options_.faults.late_ranks = {{3, 50 * kMicrosecond}};
  const Outcome outcome = run();
  EXPECT_TRUE(outcome.finished);
  EXPECT_EQ(outcome.end, healthy + 50 * kMicrosecond);
}

TEST_F(SimulateFaults, ADeadRankIsNamed) {
  options_.faults.dead_ranks = {{3, 2 * kMicrosecond}};
  const Outcome outcome = run();
  EXPECT_FALSE(outcome.finished);
  EXPECT_EQ(outcome.stuck[0], "rank 3 is dead");
  EXPECT_THAT(outcome.stuck, Contains("rank 4 lane 0 step 3 waits for a message from rank 3"));
}

TEST_F(SimulateFaults, ALostLinkLeavesItsReceiverWaiting) {
  options_.faults.lost_links = {{*find_link(fabric_, "rank 0 up"), 0}};
  const Outcome outcome = run();
  EXPECT_FALSE(outcome.finished);
  EXPECT_THAT(outcome.stuck, Contains("rank 1 lane 0 step 1 waits for a message from rank 0"));
}

TEST_F(SimulateFaults, ADeadRankLeavesItsCoreToOthers) {
  NetworkModel model = flat();
  model.cores = 1;
  const LevelFabric crowded(model, kRanks);
  for (Picoseconds at = 0; at < 20 * kMicrosecond; at += kMicrosecond / 3) {
    options_.faults.dead_ranks = {{0, at}};
    const Outcome outcome = simulate(ring_, crowded, options_);
    for (const std::string& line : outcome.stuck) EXPECT_THAT(line, testing::Not(HasSubstr("room"))) << at;
  }
}

TEST_F(SimulateFaults, ASeedTellsAll) {
  const auto faults = [&](uint64_t seed) {
    return describe(*random_faults(seed, "slow,late,dead,lost", fabric_, kRanks, kMicrosecond), fabric_);
  };
  EXPECT_EQ(faults(1), faults(1));
  EXPECT_NE(faults(1), faults(2));
  EXPECT_THAT(faults(1), HasSubstr("times as slow"));
}

TEST_F(SimulateFaults, WrongNamesAreRefused) {
  EXPECT_EQ(find_link(fabric_, "rank 6 up").status().message(),
            "no link is named 'rank 6 up'; there are 12 links, 'rank 0 up' to 'rank 5 down'");
  EXPECT_EQ(random_faults(1, "slow,dull", fabric_, kRanks, 1).status().message(),
            "faults: 'dull' is none of slow, lost, late, dead");
}

}  // namespace
}  // namespace hocket::simulate
