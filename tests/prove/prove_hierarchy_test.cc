// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans over levels are right however the ranks are grouped: equal groups and unequal ones, ranks in order or dealt
// out, one to three levels, every algorithm inside and every one across.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "prove/prove.h"
#include "topology/levels.h"
#include "topology/rings.h"
#include "topology/text.h"

namespace hocket {
namespace {

using Groups = std::vector<std::vector<Rank>>;

std::string text_of(const std::vector<Groups>& levels) {
  std::string text;
  for (const Groups& groups : levels) {
    for (const auto& group : groups) text += testing::PrintToString(group) + " ";
    text += "; ";
  }
  return text;
}

Hierarchy hierarchy_of(const std::vector<Groups>& levels, Rank ranks) {
  Result<Hierarchy> made = make_hierarchy(levels, ranks);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

void expect_right(Collective collective, const Hierarchy& hierarchy, Rank ranks, const std::string& title,
                  int32_t lanes = 1, Rank root = 0) {
  const Builder& builder = *find_builder(collective, "hierarchical");
  for (const bool in_place : {false, true}) {
    BuildOptions options{.ranks = ranks, .root = root, .lanes = lanes};
    options.hierarchy = &hierarchy;
    options.in_place = in_place;
    options.coded = builder.needs.starts_with("it needs a codec");
    if (in_place && collective == Collective::kAllToAll) continue;
    ASSERT_TRUE(builder.fits(options)) << title;
    const Result<Proof> proof = prove(builder, options);
    ASSERT_TRUE(proof.ok()) << title << ": " << proof.status().message();
  }
}

// Consecutive groups of these sizes.
Groups blocks(const std::vector<Rank>& sizes) {
  Groups groups;
  Rank next = 0;
  for (const Rank size : sizes) {
    auto& group = groups.emplace_back();
    for (Rank i = 0; i < size; ++i) group.push_back(next++);
  }
  return groups;
}

std::vector<Rank> random_sizes(Rank sum, Rank most, std::mt19937& random) {
  std::vector<Rank> sizes;
  while (sum > 0) {
    sizes.push_back(std::min(sum, static_cast<Rank>(1 + random() % static_cast<uint32_t>(most))));
    sum -= sizes.back();
  }
  return sizes;
}

// Groups of groups: each union of as many as `sizes` tells.
Groups joined(const Groups& groups, const std::vector<Rank>& sizes) {
  Groups result;
  size_t next = 0;
  for (const Rank size : sizes) {
    auto& group = result.emplace_back();
    for (Rank i = 0; i < size; ++i, ++next) group.insert(group.end(), groups[next].begin(), groups[next].end());
  }
  return result;
}

TEST(ProveHierarchy, AnyGroupsOfUpToThreeLevels) {
  std::mt19937 random(7);
  for (Rank ranks = 1; ranks <= 64; ++ranks) {
    for (int round = 0; round < 3; ++round) {
      Groups inner = blocks(random_sizes(ranks, 9, random));
      if (round == 2) {
        std::vector<Rank> order(static_cast<size_t>(ranks));
        for (Rank rank = 0; rank < ranks; ++rank) order[static_cast<size_t>(rank)] = rank;
        std::ranges::shuffle(order, random);
        for (auto& group : inner) {
          for (Rank& rank : group) rank = order[static_cast<size_t>(rank)];
        }
      }
      const Groups middle = joined(inner, random_sizes(static_cast<Rank>(inner.size()), 4, random));
      const Groups outer = joined(middle, random_sizes(static_cast<Rank>(middle.size()), 3, random));
      for (const auto& levels : {std::vector<Groups>{inner}, std::vector<Groups>{inner, middle},
                                 std::vector<Groups>{inner, middle, outer}}) {
        const Hierarchy hierarchy = hierarchy_of(levels, ranks);
        expect_right(Collective::kAllReduce, hierarchy, ranks, text_of(levels), 1 + round);
        if (round < 2) expect_right(Collective::kAllToAll, hierarchy, ranks, text_of(levels));
        if (levels.back().size() == 1) continue;
        const Rank root = static_cast<Rank>(random() % static_cast<uint32_t>(ranks));
        for (const Collective collective : {Collective::kReduceScatter, Collective::kAllGather})
          expect_right(collective, hierarchy, ranks, text_of(levels));
        for (const Collective collective : {Collective::kBroadcast, Collective::kReduce})
          expect_right(collective, hierarchy, ranks, text_of(levels), 1 + round, root);
      }
    }
  }
}

// As rails order them.
TEST(ProveHierarchy, AllToAllOfEqualGroupsWhoseMembersStandInAnyOrder) {
  std::mt19937 random(11);
  for (Rank size = 1; size <= 6; ++size) {
    for (size_t count = 1; count <= 6; ++count) {
      Groups groups = blocks(std::vector<Rank>(count, size));
      for (auto& group : groups) std::ranges::shuffle(group, random);
      const Rank ranks = size * static_cast<Rank>(count);
      expect_right(Collective::kAllToAll, hierarchy_of({groups}, ranks), ranks, text_of({groups}));
    }
  }
}

// More members, and more groups, than a step has places.
TEST(ProveHierarchy, BetweenLargeGroupsAndMany) {
  for (const std::vector<Rank>& sizes : {std::vector<Rank>{70, 3}, {1, 66}, std::vector<Rank>(64, 2)}) {
    const Rank ranks = std::accumulate(sizes.begin(), sizes.end(), 0);
    const Hierarchy hierarchy = hierarchy_of({blocks(sizes)}, ranks);
    for (const Collective collective :
         {Collective::kReduceScatter, Collective::kAllGather, Collective::kBroadcast, Collective::kReduce})
      expect_right(collective, hierarchy, ranks, text_of({blocks(sizes)}));
  }
  const Hierarchy many = hierarchy_of({blocks(std::vector<Rank>(65, 1))}, 65);
  BuildOptions options{.ranks = 65, .hierarchy = &many, .coded = true};
  EXPECT_FALSE(find_builder(Collective::kAllGather, "hierarchical")->fits(options));
}

TEST(ProveHierarchy, EveryAlgorithmInsideWithEveryOneAcross) {
  int pairs = 0;
  for (const auto& [size, count] : {std::pair<Rank, Rank>{4, 3}, {2, 5}, {8, 4}, {3, 7}}) {
    const Rank ranks = size * count;
    Hierarchy hierarchy = hierarchy_of({blocks(std::vector<Rank>(static_cast<size_t>(count), size))}, ranks);
    for (const char* within : {"direct", "ring", "circulant", "recursive_halving"}) {
      if (within == std::string_view("recursive_halving") && size == 3) continue;
      hierarchy.within = within;
      for (const Builder& across : builders()) {
        if (across.collective != Collective::kAllReduce || !across.fits({.ranks = count})) continue;
        if (across.uses_windows()) continue;  // between hosts there are none
        hierarchy.across = across.name;
        expect_right(Collective::kAllReduce, hierarchy, ranks, std::string(within) + " and " + std::string(across.name),
                     2);
        ++pairs;
      }
    }
  }
  EXPECT_GT(pairs, 200);
}

// Each byte crosses to another group once for a group, in each direction.
TEST(ProveHierarchy, SlowLinksCarryTheLeast) {
  Hierarchy hierarchy = hierarchy_of({blocks({4, 4, 4})}, 12);
  BuildOptions options{.ranks = 12};
  options.hierarchy = &hierarchy;
  const Builder& builder = *find_builder(Collective::kAllReduce, "hierarchical");
  for (options.rank = 0; options.rank < 12; ++options.rank) {
    const Plan plan = builder.build(options);
    int64_t crossing = 0;
    for (const Step& step : plan.lanes[0].steps) {
      int32_t length = 0;
      for (const auto* side : {&step.sources, &step.destinations}) {
        for (const Place& place : *side) {
          if (!place.regions.empty()) length = place.regions[0].count * place.regions[0].block;
        }
      }
      for (const Place& place : step.destinations) {
        if (place.kind == Place::Kind::kMessage && place.peer / 4 != plan.rank / 4) crossing += length;
      }
    }
    // A quarter of the data, all-reduced among three.
    EXPECT_EQ(crossing * 4 * 3, plan.send_chunks * 4) << options.rank;
  }
}

// From a machine's description to proved plans: the rings and the levels that the search finds.
TEST(ProveRoutes, WhatTheSearchFindsBecomesAPlan) {
  std::string text = "hocket topology 1\n";
  for (int gpu = 0; gpu < 8; ++gpu) text += "host " + std::to_string(gpu / 4) + "\ngpu g" + std::to_string(gpu) + "\n";
  for (int gpu = 0; gpu < 8; ++gpu) {
    for (int other = 0; other < gpu; ++other)
      text += "link g" + std::to_string(other) + " - g" + std::to_string(gpu) + " xgmi x1 50 GB/s 1 us\n";
  }
  const Topology topology = *parse_topology(text);
  const topology::Rings rings = topology::find_rings(topology);
  EXPECT_EQ(rings.orders.size(), 7U);
  const Builder& builder = *find_builder(Collective::kAllReduce, "routed_rings");
  BuildOptions options{.ranks = 8, .lanes = 2};
  options.routes = rings.orders;
  ASSERT_TRUE(builder.fits(options));
  const Result<Proof> proof = prove(builder, options);
  ASSERT_TRUE(proof.ok()) << proof.status().message();
  EXPECT_DOUBLE_EQ(proof->share_sent, 2 * 7.0 / 8);
  EXPECT_EQ(proof->rounds, 14);

  const std::vector<topology::Level> levels = topology::levels(topology);
  ASSERT_EQ(levels.size(), 1U);
  expect_right(Collective::kAllReduce, hierarchy_of({levels[0].groups}, 8), 8, "hosts");

  std::vector<std::vector<Rank>> wrong = rings.orders;
  wrong[3][0] = wrong[3][1];
  options.routes = wrong;
  EXPECT_FALSE(builder.fits(options));
}

// Whatever trees a search may find, whichever rank is on top of them.
TEST(ProveRoutes, AnyTreesGiveProvedPlans) {
  std::mt19937 random(6);
  for (const Rank ranks : {2, 3, 4, 5, 6, 7, 8, 11, 16, 23}) {
    std::vector<std::vector<Rank>> trees(2, std::vector<Rank>(static_cast<size_t>(ranks)));
    for (std::vector<Rank>& parents : trees) {
      std::vector<Rank> order(static_cast<size_t>(ranks));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::shuffle(order, random);
      for (size_t i = 0; i < order.size(); ++i)
        parents[static_cast<size_t>(order[i])] = order[i == 0 ? 0 : random() % i];
    }
    for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce}) {
      const Builder& builder = *find_builder(collective, "routed_trees");
      for (const Rank root : {0, ranks - 1}) {
        BuildOptions options{.ranks = ranks, .root = is_rooted(collective) ? root : 0};
        options.trees = trees;
        ASSERT_TRUE(builder.fits(options)) << ranks;
        const Result<Proof> proof = prove(builder, options);
        EXPECT_TRUE(proof.ok()) << name(collective) << " " << ranks << ": " << proof.status().message();
      }
    }
  }
}

TEST(Hierarchies, WrongGroupsAreRefused) {
  const auto failure = [](const std::vector<Groups>& levels, Rank ranks) {
    const Result<Hierarchy> made = make_hierarchy(levels, ranks);
    return made.ok() ? "accepted" : made.status().message();
  };
  EXPECT_EQ(failure({}, 2), "a hierarchy has 1 to 8 levels, not 0");
  EXPECT_EQ(failure({{{0}, {0, 1}}}, 2), "level 0 of the hierarchy: rank 0 is in two groups");
  EXPECT_EQ(failure({{{0}}}, 2), "level 0 of the hierarchy: rank 1 is in no group");
  EXPECT_EQ(failure({{{0, 2}}}, 2), "level 0 of the hierarchy: rank 2 does not exist");
  EXPECT_EQ(failure({{{0, 1}, {}}}, 2), "level 0 of the hierarchy: group 1 is empty");
  EXPECT_EQ(failure({{{0, 1}}, {{0}, {1}}}, 2),
            "level 1 of the hierarchy parts ranks 0 and 1, which are together inside");
}

}  // namespace
}  // namespace hocket
