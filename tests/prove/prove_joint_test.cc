// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Joint plans are right, and free of races between two meetings: what lets one launch do the steps of all ranks.
#include <gtest/gtest.h>

#include <string>

#include "plan/joint.h"
#include "prove/prove.h"

namespace hocket {
namespace {

constexpr Collective kJoint[] = {Collective::kAllReduce, Collective::kReduce,    Collective::kReduceScatter,
                                 Collective::kBroadcast, Collective::kAllGather, Collective::kGather,
                                 Collective::kScatter,   Collective::kAllToAll};

std::vector<Plan> plans(Collective collective, BuildOptions options) {
  std::vector<Plan> all;
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) all.push_back(joint_plan(collective, options));
  return all;
}

std::string title(Collective collective, const BuildOptions& options) {
  return std::string(name(collective)) + ", " + std::to_string(options.ranks) + " ranks, root " +
         std::to_string(options.root) + (options.in_place ? ", in place" : "");
}

TEST(JointPlans, AreProvedForAllNumbersOfRanks) {
  for (const Collective collective : kJoint) {
    for (const Rank ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 64}) {
      for (const Rank root : {0, ranks / 2, ranks - 1}) {
        for (const bool in_place : {false, true}) {
          const BuildOptions options{.ranks = ranks, .root = root, .in_place = in_place};
          if (!fits_joint(collective, options)) continue;
          const Result<Proof> proof = prove(plans(collective, options), {.in_place = in_place, .ordered = true});
          ASSERT_TRUE(proof.ok()) << title(collective, options) << ": " << proof.status().message();
          EXPECT_TRUE(!is_reducing(collective) || proof->same_association);
        }
      }
    }
  }
}

// Each rank reads and writes others' buffers: without one of the two meetings that is a race.
TEST(JointPlans, NeedBothMeetings) {
  for (const Collective collective : kJoint) {
    const BuildOptions options{.ranks = 3};
    for (const bool last : {false, true}) {
      std::vector<Plan> all = plans(collective, options);
      for (Plan& plan : all) {
        std::vector<Step>& steps = plan.lanes[0].steps;
        const auto at = last ? steps.end() - 2 : steps.begin();
        steps.erase(at, at + 2);
      }
      EXPECT_FALSE(prove(all).ok()) << title(collective, options) << (last ? ", no second" : ", no first");
    }
  }
}

TEST(JointPlans, AreForOneStepsSourcesAtMost) {
  EXPECT_FALSE(fits_joint(Collective::kAllReduce, {.ranks = kMaxSources + 1}));
  EXPECT_FALSE(fits_joint(Collective::kAllToAll, {.ranks = 2, .in_place = true}));
  EXPECT_FALSE(fits_joint(Collective::kScan, {.ranks = 2}));
  EXPECT_FALSE(fits_joint(Collective::kSendRecv, {.ranks = 2}));
}

}  // namespace
}  // namespace hocket
