// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The text form of plans: golden files, round trips, and what the parser says about bad text.
#include "plan/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "plan/builders.h"
#include "plan/check.h"

namespace hocket {
namespace {

using testing::HasSubstr;

struct Golden {
  const char* file;
  Collective collective;
  const char* algorithm;
  BuildOptions options;
};

const Golden kGolden[] = {
    {"all_reduce_ring", Collective::kAllReduce, "ring", {.rank = 0, .ranks = 4, .lanes = 2}},
    {"all_reduce_recursive_doubling", Collective::kAllReduce, "recursive_doubling", {.rank = 2, .ranks = 6}},
    {"all_reduce_rabenseifner", Collective::kAllReduce, "rabenseifner", {.rank = 2, .ranks = 6}},
    {"all_reduce_circulant", Collective::kAllReduce, "circulant", {.rank = 1, .ranks = 7}},
    {"all_reduce_chain", Collective::kAllReduce, "chain", {.rank = 1, .ranks = 3}},
    {"all_reduce_in_order", Collective::kAllReduce, "in_order", {.rank = 3, .ranks = 7}},
    {"reduce_knomial", Collective::kReduce, "knomial", {.rank = 1, .ranks = 9, .root = 1, .radix = 3}},
    {"all_to_all_bruck", Collective::kAllToAll, "bruck", {.rank = 1, .ranks = 7}},
    {"gather_binomial", Collective::kGather, "binomial", {.rank = 3, .ranks = 6, .root = 1}},
    {"barrier_dissemination", Collective::kBarrier, "dissemination", {.rank = 0, .ranks = 5}},
    {"all_reduce_window", Collective::kAllReduce, "window", {.rank = 1, .ranks = 3}},
    {"all_reduce_window_put", Collective::kAllReduce, "window_put", {.rank = 1, .ranks = 3}},
    {"exscan_doubling", Collective::kExScan, "doubling", {.rank = 3, .ranks = 8}},
};

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// After a wanted change: UPDATE_GOLDEN=1 plan_text_test --gtest_filter=*Golden*, then read the difference.
TEST(PlanText, GoldenFiles) {
  for (const Golden& golden : kGolden) {
    const Plan plan = find_builder(golden.collective, golden.algorithm)->build(golden.options);
    const std::string path = std::string(GOLDEN_PLANS "/") + golden.file + ".plan";
    if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << to_text(plan);
    EXPECT_EQ(to_text(plan), read(path)) << path;
    const auto parsed = parse_plan(read(path));
    ASSERT_TRUE(parsed.ok()) << path << ": " << parsed.status().message();
    EXPECT_EQ(*parsed, plan) << path;
  }
}

TEST(PlanText, EveryBuilderRoundTrips) {
  int plans = 0;
  for (const Builder& builder : builders()) {
    for (const Rank ranks : {1, 2, 3, 5, 8, 13, 67, 130}) {
      for (const int32_t lanes : {1, 3}) {
        const BuildOptions options{.rank = ranks / 2, .ranks = ranks, .root = ranks / 3, .lanes = lanes};
        if (!builder.fits(options)) continue;
        const Plan plan = builder.build(options);
        const auto parsed = parse_plan(to_text(plan));
        ASSERT_TRUE(parsed.ok()) << to_text(plan) << parsed.status().message();
        ASSERT_EQ(*parsed, plan) << to_text(plan);
        ++plans;
      }
    }
  }
  EXPECT_GT(plans, 400);
}

constexpr const char* kHead =
    "hocket plan 1\n"
    "all_reduce ring\n"
    "rank 0 of 3, root 0\n"
    "chunks send 4, recv 4, scratch 2, message 1\n"
    "depth 2\n";

TEST(PlanText, UnusualFormsRoundTrip) {
  const std::string text = std::string(kHead) +
                           "lane 0\n"
                           "  recv[0..1 x 2 by 2] <- first send[3 x 4 by -1]\n"
                           "  recv[2..3, 0], to 1 <- send[1 x 3 by 5] + from 2 after 1.0 last\n"
                           "  to 1, to 2 <- nothing\n"
                           "  nothing <- from 1\n"
                           "  to 1 <- send[]\n"
                           "  scratch[1 x 0 by 0] <- from 2\n"
                           "  recv[1], recv[1] at 2, to 1 <- first send[1] + first send[1] at 2 + from 1 last\n"
                           "lane 1\n"
                           "  scratch[0..1] <- first send[0..1]\n";
  const auto plan = parse_plan(text);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(to_text(*plan), text);
}

TEST(PlanText, BlanksAndCommentsAreIgnored) {
  const std::string text =
      std::string("# a plan\n\n") + kHead + "lane 0   # the only one\n\n\tto  1<-first   send[ 1 ]\r\n";
  const auto plan = parse_plan(text);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(to_text(plan->lanes[0].steps[0]), "to 1 <- first send[1]");
}

struct Bad {
  std::string text;
  const char* message;
};

TEST(PlanText, SaysWhatIsWrongAndWhere) {
  const std::string head = kHead;
  const Bad cases[] = {
      {"", "line 1: expected 'hocket', found the end of the line"},
      {"hocket plan 2\n", "line 1: expected '1', found '2'"},
      {"hocket plan 1\nall_reduze ring\n", "line 2: expected the name of a collective"},
      {"hocket plan 1\nall_reduce ring\nrank 0 of x, root 0\n",
       "line 3: expected a number of ranks, found 'x, root 0'"},
      {"hocket plan 1\nall_reduce ring\nrank 99999999999 of 3, root 0\n", "line 3: expected a rank"},
      {"hocket plan 1\nall_reduce ring\nrank 3 of 3, root 0\nchunks send 4, recv 4, scratch 0, message 1\ndepth 1\n",
       "rank is 3, not 0 to 2"},
      {head + "  to 1 <- send[0]\n", "line 6: expected 'lane 0'"},
      {head + "lane 1\n", "line 6: expected lane 0"},
      {head + "lane 0\n  to 1 send[0]\n", "line 7: expected '<-', found 'send[0]'"},
      {head + "lane 0\n  to 1 <- sand[0]\n", "line 7: expected send[], recv[], scratch[] or 'from', found 'sand[0]'"},
      {head + "lane 0\n  to 1 <- send[0\n", "line 7: expected ']', found the end of the line"},
      {head + "lane 0\n  to 1 <- send[3..2]\n", "line 7: expected a block of chunks"},
      {head + "lane 0\n  to 1 <- send[0, 1, 2]\n", "line 7: expected no more than 2 regions"},
      {head + "lane 0\n  to 1 <- send[0] latest\n", "line 7: expected the end of the line, found 'latest'"},
      {head + "lane 0\n  to 1 <- send[4]\n", "rank 0 lane 0 step 0: first chunk is 4, not 0 to 3"},
      {head + "lane 0\n  to 3 <- send[1]\n", "rank 0 lane 0 step 0: peer is 3, not 0 to 2"},
      {head + "lane 0\n  to 1 <- send[1] after 1.0\n", "rank 0 lane 0 step 0: it waits for 1.0, which does not exist"},
  };
  for (const Bad& bad : cases) {
    const auto plan = parse_plan(bad.text);
    ASSERT_FALSE(plan.ok()) << bad.text;
    EXPECT_EQ(plan.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(plan.status().message(), HasSubstr(bad.message)) << bad.text;
  }
}

TEST(PlanText, HasLimits) {
  std::string lanes = kHead;
  for (int lane = 0; lane <= kMaxLanes; ++lane) lanes += "lane " + std::to_string(lane) + "\n";
  EXPECT_THAT(parse_plan(lanes).status().message(), HasSubstr("expected no more than 64 lanes"));

  std::string sources = std::string(kHead) + "lane 0\n  recv[0] <- send[0]";
  for (int i = 0; i < kMaxSources; ++i) sources += " + send[0]";
  EXPECT_THAT(parse_plan(sources).status().message(), HasSubstr("line 7: expected no more than 64 places"));

  EXPECT_THAT(parse_plan(std::string(kMaxPlanText + 1, ' ')).status().message(), HasSubstr("exceeds the limit"));
  EXPECT_FALSE(parse_plan(std::string(1 << 20, '[')).ok());
}

// Bytes changed at random: rejected, or a plan that the check accepts and that prints and parses to itself.
TEST(PlanText, SurvivesDamage) {
  std::mt19937 random(20);
  const std::string alphabet = "0123456789 ,.+-<[]#\nxabcdefghijklmnopqrstuvw_";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    const Golden& golden = kGolden[random() % std::size(kGolden)];
    std::string text = to_text(find_builder(golden.collective, golden.algorithm)->build(golden.options));
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t place = random() % text.size();
      const char letter = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          text[place] = letter;
          break;
        case 1:
          text.insert(place, 1, letter);
          break;
        default:
          text.erase(place, 1 + random() % 4);
      }
    }
    const auto plan = parse_plan(text);
    if (!plan.ok()) continue;
    ++accepted;
    ASSERT_TRUE(check(*plan).ok()) << text;
    const auto again = parse_plan(to_text(*plan));
    ASSERT_TRUE(again.ok()) << text << to_text(*plan) << again.status().message();
    ASSERT_EQ(*again, *plan) << text;
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace hocket
