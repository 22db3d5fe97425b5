// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Every algorithm's plans, split over several lanes, are proved again: they do the same with the same messages.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "plan/hierarchy.h"
#include "plan/lanes.h"
#include "prove/prove.h"

namespace hocket {
namespace {

std::vector<Plan> build_all(const Builder& builder, BuildOptions options) {
  std::vector<Plan> plans;
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) plans.push_back(builder.build(options));
  return plans;
}

std::vector<Plan> split(const std::vector<Plan>& plans, int32_t lanes) {
  std::vector<Plan> result;
  for (const Plan& plan : plans) result.push_back(over_lanes(plan, lanes));
  return result;
}

// False where these plans cannot be split.
bool check(const Builder& builder, const BuildOptions& options, int32_t lanes) {
  const std::string title = fmt::format("{} {}, {} ranks, {} lanes{}", name(builder.collective), builder.name,
                                        options.ranks, lanes, options.in_place ? ", in place" : "");
  const std::vector<Plan> plans = build_all(builder, options);
  for (const Plan& plan : plans) EXPECT_EQ(most_lanes(plan), most_lanes(plans[0])) << title << ", rank " << plan.rank;
  if (most_lanes(plans[0]) < lanes) return false;
  const ProveOptions how{
      .in_place = options.in_place, .equal_chunks = builder.equal_chunks_only, .ordered = builder.ordered};
  const Result<Proof> whole = prove(plans, how);
  const Result<Proof> parts = prove(split(plans, lanes), how);
  EXPECT_TRUE(whole.ok()) << title << ": " << whole.status().message();
  EXPECT_TRUE(parts.ok()) << title << ": " << parts.status().message();
  if (!whole.ok() || !parts.ok()) return true;
  EXPECT_EQ(parts->depth, whole->depth) << title;
  EXPECT_EQ(parts->rounds, whole->rounds) << title;
  EXPECT_EQ(parts->longest_message, whole->longest_message) << title;
  EXPECT_EQ(parts->steps, lanes * whole->steps) << title;
  EXPECT_DOUBLE_EQ(parts->share_sent, whole->share_sent) << title;
  EXPECT_EQ(parts->in_rank_order, whole->in_rank_order) << title;
  return true;
}

class ProveLanes : public testing::TestWithParam<const Builder*> {};

TEST_P(ProveLanes, TheSameOverSeveral) {
  const Builder& builder = *GetParam();
  int split = 0;
  for (const Rank ranks : {2, 3, 4, 5, 8, 11, 16, 23}) {
    for (const bool in_place : {false, true}) {
      for (const int32_t lanes : {2, 3, 8}) {
        const BuildOptions options{.ranks = ranks, .root = ranks / 2, .in_place = in_place};
        if (builder.fits(options)) split += check(builder, options, lanes) ? 1 : 0;
      }
    }
  }
  // What needs no pipes, and chunks that lie in blocks at distances, need not go over several.
  const bool is_whole = builder.uses_windows() || builder.collective == Collective::kBarrier ||
                        builder.name == "hierarchical" || builder.name.starts_with("routed_");
  EXPECT_EQ(split == 0, is_whole);
}

std::vector<const Builder*> all() {
  std::vector<const Builder*> result;
  for (const Builder& builder : builders()) result.push_back(&builder);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Plans, ProveLanes, testing::ValuesIn(all()), [](const auto& tested) {
  return fmt::format("{}_{}", name(tested.param->collective), tested.param->name);
});

TEST(ProveLanesOfHierarchies, TheSameOverSeveral) {
  for (const std::vector<std::vector<Rank>>& hosts :
       {std::vector<std::vector<Rank>>{{0, 1}, {2, 3}}, {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}, {{0, 3}, {1, 2, 4}, {5}}}) {
    Rank ranks = 0;
    for (const auto& host : hosts) ranks += static_cast<Rank>(host.size());
    const Result<Hierarchy> hierarchy = make_hierarchy({hosts}, ranks);
    ASSERT_TRUE(hierarchy.ok()) << hierarchy.status().message();
    for (const Builder& builder : builders()) {
      const BuildOptions options{.ranks = ranks, .hierarchy = &*hierarchy, .coded = true};
      if (builder.name == "hierarchical" && builder.fits(options)) {
        EXPECT_TRUE(check(builder, options, 4));
      }
    }
  }
}

// A part that lies elsewhere is found: the proof looks at each.
TEST(ProveLanes, AWrongPartIsFound) {
  for (const Builder& builder : builders()) {
    const BuildOptions options{.ranks = 4};
    if (!builder.fits(options)) continue;
    std::vector<Plan> plans = split(build_all(builder, options), 3);
    if (most_lanes(builder.build(options)) < 3) continue;
    bool moved = false;
    for (Step& step : plans[1].lanes[plans[1].lanes.size() / 3 * 2].steps) {
      for (Place& place : step.destinations) {
        if (moved || place.kind != Place::Kind::kChunk) continue;
        --place.regions[0].first;
        moved = true;
      }
    }
    EXPECT_EQ(prove(plans, {.equal_chunks = true}).ok(), !moved) << name(builder.collective) << " " << builder.name;
  }
}

}  // namespace
}  // namespace hocket
