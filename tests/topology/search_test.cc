// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Rings are rings, fit on the links, and carry what is known to be possible.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <map>
#include <sstream>

#include "topology/bound.h"
#include "topology/draw.h"
#include "topology/levels.h"
#include "topology/rings.h"
#include "topology/room.h"
#include "topology/text.h"
#include "topology/trees.h"
#include "topology/ways.h"

namespace hocket::topology {
namespace {

// GPUs with this many wires of 1 GB/s between each two, row by row.
Topology machine_of(size_t gpus, const std::vector<int>& wires) {
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  for (size_t i = 0; i < gpus; ++i) vertices.push_back({Vertex::Kind::kGpu, "gpu" + std::to_string(i), "", 0});
  for (size_t i = 0; i < gpus * gpus; ++i) {
    if (wires[i] > 0) {
      links.push_back({Link::Kind::kXgmi, static_cast<int32_t>(i / gpus), static_cast<int32_t>(i % gpus), wires[i],
                       static_cast<double>(wires[i]), 1});
    }
  }
  return *Topology::make(std::move(vertices), std::move(links));
}

void expect_sound(const Topology& topology, const Rings& rings) {
  const Ways ways(topology, rings.reach);
  std::map<int32_t, double> load;
  for (const auto& order : rings.orders) {
    std::vector<int32_t> sorted = order;
    std::ranges::sort(sorted);
    ASSERT_EQ(sorted.size(), ways.seats());
    for (size_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], static_cast<int32_t>(i));
    for (size_t i = 0; i < order.size(); ++i) {
      const Way& way = ways.way(static_cast<size_t>(order[i]), static_cast<size_t>(order[(i + 1) % order.size()]));
      ASSERT_FALSE(way.empty());
      for (const int32_t link : way) load[link] += rings.ring_gb_per_s;
    }
  }
  for (const auto& [link, sum] : load) EXPECT_LE(sum, topology.link(link).gb_per_s * 1.0001);
  EXPECT_LE(rings.gb_per_s(), rings.bound_gb_per_s * 1.0001);
}

// Calls function(name, topology, GB/s of the rings chosen by hand) for each of RCCL's six.
template <typename Function>
void for_models(Function function) {
  std::ifstream file(FIXTURES "/rccl_models.txt");
  int models = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string name;
    size_t gpus = 0;
    double known = 0;
    words >> name >> gpus >> known;
    std::vector<int> wires(gpus * gpus);
    for (int& count : wires) words >> count;
    ASSERT_TRUE(words) << name;
    const Topology topology = machine_of(gpus, wires);
    function(name, topology, known);
    ++models;
  }
  EXPECT_EQ(models, 6);
}

TEST(Rings, AreAsGoodAsThoseThatPeopleChoseByHand) {
  for_models([](const std::string& name, const Topology& topology, double known) {
    const Rings rings = find_rings(topology);
    expect_sound(topology, rings);
    EXPECT_GE(rings.gb_per_s(), known) << name;
  });
}

// Joins all seats, and no link carries more than it can, in either direction.
void expect_sound(const Topology& topology, const Trees& trees) {
  const Ways ways(topology, trees.reach);
  std::map<int32_t, double> load;
  for (const auto& parents : trees.parents) {
    ASSERT_EQ(parents.size(), ways.seats());
    size_t roots = 0;
    for (size_t seat = 0; seat < parents.size(); ++seat) {
      const auto parent = static_cast<size_t>(parents[seat]);
      roots += parent == seat ? 1 : 0;
      size_t above = seat;
      for (size_t i = 0; i < parents.size(); ++i) above = static_cast<size_t>(parents[above]);
      ASSERT_EQ(static_cast<size_t>(parents[above]), above) << "a way up that does not end";
      if (parent == seat) continue;
      for (const auto& [from, to] : {std::pair{seat, parent}, std::pair{parent, seat}}) {
        ASSERT_FALSE(ways.way(from, to).empty());
        for (const int32_t link : ways.way(from, to)) load[link] += trees.tree_gb_per_s;
      }
    }
    ASSERT_EQ(roots, 1U);
  }
  for (const auto& [link, sum] : load) EXPECT_LE(sum, topology.link(link).gb_per_s * 1.0001);
  EXPECT_LE(trees.bus_gb_per_s(), trees.bound_gb_per_s * 1.0001);
}

// The trees of the same models: what is lost of the bound is a rest of wires that join no tree any more.
TEST(Trees, ComeNearTheBound) {
  for_models([](const std::string& name, const Topology& topology, double) {
    const Trees trees = find_trees(topology);
    expect_sound(topology, trees);
    std::printf("%s: %zu trees, %.3g GB/s of the bus, bound %.3g\n", name.c_str(), trees.parents.size(),
                trees.bus_gb_per_s(), trees.bound_gb_per_s);
    EXPECT_GE(trees.bus_gb_per_s(), 0.95 * trees.bound_gb_per_s) << name;
  });
}

// A switch between eight: every seat's port takes its part of each tree.
TEST(Trees, ShareTheSwitch) {
  std::string text = "hocket topology 1\nfabric switch\n";
  for (int gpu = 0; gpu < 8; ++gpu)
    text += "gpu g" + std::to_string(gpu) + "\nlink g" + std::to_string(gpu) + " - switch nvlink x18 450 GB/s 1 us\n";
  const Topology topology = *parse_topology(text);
  const Trees trees = find_trees(topology);
  expect_sound(topology, trees);
  EXPECT_GE(trees.bus_gb_per_s(), 0.95 * 450);
}

void expect_too_large(const Topology& topology) {
  const Rings rings = find_rings(topology);
  const Trees trees = find_trees(topology);
  EXPECT_TRUE(rings.too_large && trees.too_large);
  EXPECT_TRUE(rings.orders.empty() && trees.parents.empty());
}

// What a search holds grows with the square of the seats: a file must not ask for more than there is.
TEST(Rings, TooManySeatsAreNotSearched) {
  const auto around_a_switch = [](size_t seats) {
    std::string text = "hocket topology 1\nfabric s\n";
    for (size_t i = 0; i < seats; ++i) text += fmt::format("gpu g{}\nlink g{} - s nvlink x1 1 GB/s 1 us\n", i, i);
    return *parse_topology(text);
  };
  EXPECT_FALSE(roads_of(around_a_switch(kMaxSearchedSeats)).too_large);
  const Topology large = around_a_switch(kMaxSearchedSeats + 1);
  expect_too_large(large);
}

// From one vertex to a new one, over so many fabrics.
int32_t add_chain(int32_t from, int32_t fabrics, std::vector<Vertex>& vertices, std::vector<Link>& links) {
  for (int32_t i = 0; i <= fabrics; ++i) {
    const auto here = static_cast<int32_t>(vertices.size());
    vertices.push_back({i < fabrics ? Vertex::Kind::kFabric : Vertex::Kind::kGpu, fmt::format("v{}", here), "", 0});
    links.push_back({Link::Kind::kNvlink, from, here, 1, 1.0, 1});
    links.push_back({Link::Kind::kNvlink, here, from, 1, 1.0, 1});
    from = here;
  }
  return from;
}

// Around a switch, over so many fabrics each.
Topology star(int32_t seats, int32_t fabrics) {
  std::vector<Vertex> vertices{{Vertex::Kind::kFabric, "middle", "", 0}};
  std::vector<Link> links;
  for (int32_t seat = 0; seat < seats; ++seat) add_chain(0, fabrics, vertices, links);
  return *Topology::make(std::move(vertices), std::move(links));
}

// One after the other, over so many fabrics.
Topology line(int32_t seats, int32_t fabrics) {
  std::vector<Vertex> vertices{{Vertex::Kind::kGpu, "first", "", 0}};
  std::vector<Link> links;
  for (int32_t seat = 1, last = 0; seat < seats; ++seat) last = add_chain(last, fabrics, vertices, links);
  return *Topology::make(std::move(vertices), std::move(links));
}

TEST(Rings, TooLongWaysAreNotSearched) {
  EXPECT_FALSE(roads_of(star(96, 300)).too_large);
  expect_too_large(star(192, 300));  // all ways together
  expect_too_large(star(256, 600));  // looking for them
  expect_too_large(star(900, 3));    // growing one tree
}

// Of this process: how busy the machine is does not count.
double processor_seconds_of_search(const Topology& topology) {
  const std::clock_t begin = std::clock();
  EXPECT_FALSE(find_rings(topology).orders.empty());
  EXPECT_FALSE(find_trees(topology).parents.empty());
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Seconds, with sanitizers: the bounds are for machines that take ten times as long.
constexpr double kMostSeconds = 60;

// What a search may take counts links, not ways: where these are long it took minutes.
TEST(Trees, LongWaysTakeNoLonger) { EXPECT_LT(processor_seconds_of_search(star(32, 600)), kMostSeconds); }

// All ways were looked along for each seat that joined a tree: 20 times as long.
TEST(Trees, ManySeatsTakeSeconds) { EXPECT_LT(processor_seconds_of_search(star(1000, 0)), kMostSeconds); }

// Ports of many rates around a switch, and one that hardly carries anything.
Topology ports(int seats, double slowest_gb_per_s) {
  std::string text = "hocket topology 1\nfabric s\n";
  for (int seat = 0; seat < seats; ++seat) {
    const double gb_per_s = seat == 0 ? slowest_gb_per_s : 200 + 25 * (seat % 24);
    text += fmt::format("gpu g{}\nlink g{} - s nvlink x{} {} GB/s 1 us\n", seat, seat, 8 + seat % 24, gb_per_s);
  }
  return *parse_topology(text);
}

// Each tree of most widths was begun, and grown up to that seat: many times as long.
TEST(Trees, ASeatThatNoneReachesIsSeenAtTheRoot) {
  const auto looks = [](double slowest) {
    const Trees trees = find_trees(ports(800, slowest));
    EXPECT_FALSE(trees.parents.empty());
    return trees.looks;
  };
  const int64_t with_all = looks(200);
  EXPECT_GT(with_all, 0);
  EXPECT_LT(looks(0.001), 2 * with_all);
}

// 250,000 vertices: nothing may call itself for each.
TEST(Bound, AWayMayBeAsLongAsAFileMakesIt) { EXPECT_DOUBLE_EQ(bus_bound_gb_per_s(line(2, 250'000), Reach::kFast), 1); }

TEST(Trees, AMachineInPiecesHasNone) {
  EXPECT_TRUE(find_trees(machine_of(4, {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0})).parents.empty());
  EXPECT_TRUE(find_trees(machine_of(1, {0})).parents.empty());
}

TEST(Rings, AMachineInPiecesHasNone) {
  EXPECT_TRUE(find_rings(machine_of(4, {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0})).orders.empty());
  EXPECT_TRUE(find_rings(machine_of(1, {0})).orders.empty());
}

// Two pairs of GPUs, 10 GB/s inside, 1 GB/s between: each side has to take in what two ranks have.
TEST(Bound, ACutInTheMiddleCounts) {
  const Topology topology = *parse_topology(
      "hocket topology 1\ngpu a\ngpu b\ngpu c\ngpu d\nlink a - b nvlink x1 10 GB/s 1 us\n"
      "link c - d nvlink x1 10 GB/s 1 us\nlink b - c nvlink x1 1 GB/s 1 us\nlink a - d nvlink x1 1 GB/s 1 us\n");
  EXPECT_NEAR(bus_bound_gb_per_s(topology, Reach::kFast), 3, 0.001);  // 2 GB/s for 2 of 4 ranks, 3 others each
  const Rings rings = find_rings(topology);
  expect_sound(topology, rings);
  EXPECT_DOUBLE_EQ(rings.gb_per_s(), 2);
}

TEST(Levels, HostsAndRails) {
  const Topology topology = *parse_topology(
      "hocket topology 1\ngpu g0\ngpu g1\ncpu c0\nnic mlx5_1\nnic mlx5_0\nhost 1\ngpu g2\ngpu g3\ncpu c1\nnic "
      "mlx5_0@1\n"
      "nic mlx5_1@1\nlink g0 - mlx5_1 pci x1 1 GB/s 1 us\nlink g1 - mlx5_0 pci x1 1 GB/s 1 us\n"
      "link g2 - mlx5_0@1 pci x1 1 GB/s 1 us\nlink g3 - mlx5_1@1 pci x1 1 GB/s 1 us\nlink g0 - c0 pci x1 1 GB/s 1 us\n"
      "link g1 - c0 pci x1 1 GB/s 1 us\nlink g2 - c1 pci x1 1 GB/s 1 us\nlink g3 - c1 pci x1 1 GB/s 1 us\n");
  const std::vector<Level> found = levels(topology);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "host");
  EXPECT_EQ(found[0].groups, (std::vector<std::vector<int32_t>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(rails(topology), (std::vector<std::vector<int32_t>>{{1, 2}, {0, 3}}));
}

// The second host lacks the first rail, and has two seats at the NIC of the second.
TEST(Levels, RailsOfHostsThatDifferGoByTheNamesOfNics) {
  std::string text = "hocket topology 1\n";
  for (const auto& [host, gpu, nic] : {std::tuple("", "g0", "mlx5_0"),
                                       {"", "g1", "mlx5_1"},
                                       {"@1", "g2", "mlx5_1"},
                                       {"@1", "g3", "mlx5_1"},
                                       {"@1", "g4", "mlx5_2"}}) {
    const std::string port = std::string(nic) + host;
    if (std::string_view(gpu) == "g2") text += "host 1\n";
    text += std::string("gpu ") + gpu + "\n";
    if (std::string_view(gpu) != "g3") text += "nic " + port + "\n";
    text += std::string("link ") + gpu + " - " + port + " pci x1 1 GB/s 1 us\n";
  }
  const Result<Topology> topology = parse_topology(text);
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(rails(*topology), (std::vector<std::vector<int32_t>>{{0}, {1, 2}, {3}, {4}}));
}

TEST(Draw, ShowsEveryVertexAndEscapesNames) {
  const Topology topology = *parse_topology(
      "hocket topology 1\ngpu a<&b\ngpu c\nfabric f\nlink a<&b - f nvlink x1 10 GB/s 1 us\nlink c - f nvlink x1 10 "
      "GB/s 1 us\n");
  const std::string svg = draw_svg(topology, find_rings(topology), find_trees(topology));
  EXPECT_EQ(svg.find("<svg "), 0U);
  EXPECT_NE(svg.find("a&lt;&amp;b"), std::string::npos);
  EXPECT_EQ(svg.find("a<"), std::string::npos);
  EXPECT_NE(svg.find("<polygon"), std::string::npos);
  EXPECT_NE(svg.find("1 rings of 10 GB/s"), std::string::npos);
  EXPECT_NE(svg.find("<polyline"), std::string::npos);
  EXPECT_NE(svg.find("1 trees of 10 GB/s"), std::string::npos);
}

}  // namespace
}  // namespace hocket::topology
