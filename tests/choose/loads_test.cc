// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// From a topology to what is chosen on it.
#include "choose/loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "choose/choose.h"
#include "plan/coded.h"
#include "prove/prove.h"
#include "topology/text.h"
#include "topology/trees.h"

namespace hocket {
namespace {

constexpr size_t kMaxMessage = kLongestInMemory;
constexpr int kOrder[] = {0, 3, 5, 1, 7, 2, 6, 4};

// GPUs in a ring that their numbers do not follow; everything else takes the slow way.
Topology scattered_ring() {
  std::string text = "hocket topology 1\ncpu cpu0\n";
  for (int gpu = 0; gpu < 8; ++gpu)
    text += "gpu g" + std::to_string(gpu) + "\nlink g" + std::to_string(gpu) + " - cpu0 pci x1 1 GB/s 1 us\n";
  for (int i = 0; i < 8; ++i)
    text += "link g" + std::to_string(kOrder[i]) + " - g" + std::to_string(kOrder[(i + 1) % 8]) +
            " nvlink x1 25 GB/s 1 us\n";
  return *parse_topology(text);
}

Femtoseconds load(const Routes& routes, Collective collective, std::string_view algorithm) {
  for (const LinkLoad& load : routes.loads) {
    if (load.collective == collective && load.algorithm == algorithm) return load.byte;
  }
  return -1;
}

// A ring sends 2 * 7 / 8 of the data over each link; two rings, in both directions, half of it each.
TEST(Loads, ABytesTimeOnTheBusiestLink) {
  const Result<Routes> routes = find_routes(scattered_ring());
  ASSERT_TRUE(routes.ok()) << routes.status().message();
  ASSERT_EQ(routes->rings.size(), 2U);
  EXPECT_EQ(load(*routes, Collective::kAllReduce, "routed_rings"), 35'000);  // 7 / 8 at 25 GB/s
  // Through PCI, whichever neighbours are none: 2 * 7 / 8 at 1 GB/s.
  EXPECT_EQ(load(*routes, Collective::kAllReduce, "ring"), 1'750'000);
  EXPECT_EQ(load(*routes, Collective::kAllReduce, "no_such"), -1);
}

// Fast links join all seats directly, but the ways of least latency pass more fabrics than may be kept.
TEST(Loads, TooLongWaysBesideFastOnesAreRefused) {
  constexpr int kSeats = 128;
  constexpr int kFabrics = 520;
  std::string text = "hocket topology 1\nfabric fast\nfabric last\n";
  for (int gpu = 0; gpu < kSeats; ++gpu) {
    std::string from = "g" + std::to_string(gpu);
    text += "gpu " + from + "\nlink " + from + " - fast nvlink x1 25 GB/s 1000 us\n";
    for (int i = 0; i < kFabrics; ++i) {
      const std::string to = "f" + std::to_string(gpu) + "_" + std::to_string(i);
      text += "fabric " + to + "\nlink " + from + " - " + to + " pci x1 1 GB/s 0.001 us\n";
      from = to;
    }
    text += "link " + from + " - last pci x1 1 GB/s 0.001 us\n";
  }
  const Result<Routes> routes = find_routes(*parse_topology(text));
  ASSERT_FALSE(routes.ok());
  EXPECT_THAT(routes.status().message(), testing::HasSubstr("too many to search"));
}

// The verifier has them right whatever their root, and trees of few ranks too.
TEST(Loads, TreesOfTheSearchAreProved) {
  const Topology topology = scattered_ring();
  const topology::Trees trees = topology::find_trees(topology);
  ASSERT_FALSE(trees.parents.empty());
  for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce}) {
    const Builder& builder = *find_builder(collective, "routed_trees");
    for (Rank root = 0; root < (is_rooted(collective) ? 8 : 1); ++root) {
      BuildOptions options{.ranks = 8, .root = root};
      options.trees = trees.parents;
      ASSERT_TRUE(builder.fits(options));
      const Result<Proof> proof = prove(builder, options);
      EXPECT_TRUE(proof.ok()) << name(collective) << " " << root << ": " << proof.status().message();
      const std::optional<int32_t> chain = tree_rounds(collective, trees.parents, root);
      if (proof.ok()) {
        EXPECT_EQ(proof->rounds, chain) << name(collective) << " " << root;
      }
    }
  }
}

TEST(Loads, WhatIsNoTreeIsRefused) {
  const Builder& builder = *find_builder(Collective::kBroadcast, "routed_trees");
  for (const std::vector<Rank>& parents :
       {std::vector<Rank>{0, 0}, {0, 2, 1}, {0, 1, 0}, {1, 2, 0}, {0, 0, 3}, {0, 0, -1}, {}}) {
    const std::vector<std::vector<Rank>> trees{parents};
    BuildOptions options{.ranks = 3};
    options.trees = trees;
    EXPECT_FALSE(builder.fits(options)) << testing::PrintToString(parents);
  }
}

// Where a ring of the ranks' numbers crosses slow links, what the search found is chosen; elsewhere it is not there.
TEST(Loads, TheChooserTakesWhatTheSearchFound) {
  Tuning tuning;
  tuning.memory.latency = 1'000'000;
  tuning.memory.wire_byte = 20'000;  // 50 GB/s
  const Result<Routes> routes = find_routes(scattered_ring());
  ASSERT_TRUE(routes.ok());
  Question question{.ranks = 8, .bytes = 256 << 20};
  const Placement together{.ranks = 8, .per_host = 8, .memory = true};
  const auto chosen = [&](Collective collective, const Placement& placement) {
    Chooser chooser({}, tuning, placement, kMaxMessage);
    question.collective = collective;
    question.ranks = placement.ranks;
    return std::string(chooser.choose(question)->builder->name);
  };
  EXPECT_NE(chosen(Collective::kBroadcast, together), "routed_trees");
  tuning.routes = *routes;
  EXPECT_EQ(chosen(Collective::kBroadcast, together), "routed_trees");
  EXPECT_EQ(chosen(Collective::kReduce, together), "routed_trees");
  EXPECT_THAT(chosen(Collective::kAllReduce, together), testing::StartsWith("routed_"));
  EXPECT_NE(chosen(Collective::kBroadcast, {.ranks = 7, .per_host = 7, .memory = true}), "routed_trees");
  EXPECT_NE(chosen(Collective::kBroadcast, {.ranks = 8, .per_host = 4, .memory = true}), "routed_trees");
}

TEST(Loads, WhatCannotBeIsSaid) {
  EXPECT_THAT(find_routes(*parse_topology("hocket topology 1\ngpu a\n")).status().message(),
              testing::HasSubstr("1 seats, not 2 to 128"));
  EXPECT_THAT(find_routes(*parse_topology("hocket topology 1\ngpu a\ngpu b\n")).status().message(),
              testing::HasSubstr("a seat cannot reach all others"));
  std::string chains = "hocket topology 1\nfabric f\n";
  for (int seat = 0; seat < 128; ++seat) {
    std::string last = "f";
    for (int i = 0; i < 600; ++i) {
      const std::string here = "v" + std::to_string(600 * seat + i);
      chains += (i < 599 ? "fabric " : "gpu ") + here + "\nlink " + last + " - " + here + " nvlink x1 1 GB/s 1 us\n";
      last = here;
    }
  }
  EXPECT_THAT(find_routes(*parse_topology(chains)).status().message(), testing::HasSubstr("too many to search"));
}

// The second host's first GPU is near the other rail's NIC.
TEST(Loads, RailsOfSeveralHostsAreFound) {
  std::string text = "hocket topology 1\nnetwork net\n";
  for (int host = 0; host < 2; ++host) {
    const auto at = [&](const std::string& name) { return host == 0 ? name : name + "@1"; };
    text += "host " + std::to_string(host) + "\n";
    for (int i = 0; i < 2; ++i) {
      const std::string number = std::to_string(i);
      text += "cpu " + at("cpu" + number) + "\nnic " + at("mlx5_" + number) + "\n";
    }
    for (int i = 0; i < 2; ++i) {
      const std::string gpu = at("gpu" + std::to_string(2 * host + i));
      const std::string near = std::to_string(host == 0 ? i : 1 - i);
      text += "gpu " + gpu + "\nlink " + gpu + " - " + at("cpu" + near) + " pci x16 12 GB/s 0.4 us\n";
    }
    text += "link " + at("cpu0") + " - " + at("cpu1") + " socket x1 20 GB/s 0.2 us\n";
    for (const char* number : {"0", "1"}) {
      text += "link " + at(std::string("mlx5_") + number) + " - " + at(std::string("cpu") + number) +
              " pci x16 12 GB/s 0.4 us\nlink " + at(std::string("mlx5_") + number) +
              " - net network x1 25 GB/s 1.5 us\n";
    }
  }
  const Result<Topology> topology = parse_topology(text);
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  const Placement placement = placement_on(*topology);
  EXPECT_EQ(placement.hosts, (std::vector<std::vector<Rank>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(placement.rails, (std::vector<int32_t>{0, 1, 1, 0}));
  const Result<Routes> routes = find_routes(*topology);
  ASSERT_TRUE(routes.ok()) << routes.status().message();
  EXPECT_EQ(routes->rails, placement.rails);
  EXPECT_TRUE(placement_on(scattered_ring()).rails.empty());
  // A tuning's rails replace what interfaces say.
  Tuning tuning = built_in_tuning();
  tuning.routes = *routes;
  const Placement told{.ranks = 4, .per_host = 2, .memory = true, .hosts = placement.hosts, .rails = {0, 1, 0, 1}};
  Chooser chooser({}, tuning, told, 128 << 10);
  EXPECT_EQ(chooser.options_of({.ranks = 4}).hierarchy->levels[0], (std::vector<Hierarchy::Group>{{0, 1}, {3, 2}}));
}

}  // namespace
}  // namespace hocket
