// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The simulator against the verifier, for every builder: where only latency costs, a call takes as many latencies as
// the verifier counts rounds; and the busiest rank sends what the verifier says.
#include <gtest/gtest.h>

#include <algorithm>

#include "networks.h"
#include "prove/prove.h"
#include "simulate/simulate.h"

namespace hocket::simulate {
namespace {

constexpr Rank kMostRanks = 20;

std::string title(const Builder& builder, const BuildOptions& options) {
  return std::string(name(builder.collective)) + " " + std::string(builder.name) + " of " +
         std::to_string(options.ranks) + " ranks and " + std::to_string(options.lanes) + " lanes";
}

template <typename Use>
void for_all_builders(const Use& use) {
  for (const Builder& builder : builders()) {
    for (Rank ranks = 2; ranks <= kMostRanks; ++ranks) {
      for (int32_t lanes = 1; lanes <= 2; ++lanes) {
        BuildOptions options;
        options.ranks = ranks;
        options.root = ranks / 3;
        options.lanes = lanes;
        if (builder.fits(options)) use(builder, options);
      }
    }
  }
}

TEST(SimulateBuilders, LatenciesAreRounds) {
  for_all_builders([](const Builder& builder, const BuildOptions& options) {
    const Result<Proof> proof = prove(builder, options);
    ASSERT_TRUE(proof.ok()) << proof.status().message();
    const Result<Program> program = make_program(builder, options, {.bytes = 64, .pipe_depth = 64});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const Outcome outcome = simulate(*program, LevelFabric(flat(kMicrosecond, 0), options.ranks));
    EXPECT_TRUE(outcome.finished) << title(builder, options);
    EXPECT_EQ(outcome.end, proof->rounds * kMicrosecond) << title(builder, options);
  });
}

TEST(SimulateBuilders, LinksCarryWhatTheVerifierCounts) {
  for_all_builders([](const Builder& builder, const BuildOptions& options) {
    const Plan plan = builder.build(options);
    const int32_t chunks = std::max(plan.send_chunks, plan.recv_chunks);
    const bool divides = plan.send_chunks == plan.recv_chunks && builder.collective != Collective::kAllToAll;
    const int64_t whole = int64_t{64} * chunks * 3;
    const CallShape shape{
        .bytes = divides ? whole : whole / chunks, .window_bytes = 128, .slice_bytes = 64 * plan.message_chunks};
    const Result<Program> program = make_program(builder, options, shape);
    ASSERT_TRUE(program.ok()) << program.status().message();
    const LevelFabric fabric(flat(), options.ranks);
    const Outcome outcome = simulate(*program, fabric);
    ASSERT_TRUE(outcome.finished) << title(builder, options) << outcome.stuck[0];
    int64_t most = 0;
    for (LinkId link = 0; link < fabric.links(); link += 2) most = std::max(most, outcome.links[link].bytes);
    const double share = static_cast<double>(most) / static_cast<double>(whole);
    EXPECT_NEAR(share, prove(builder, options)->share_sent, 1e-9) << title(builder, options);
  });
}

}  // namespace
}  // namespace hocket::simulate
