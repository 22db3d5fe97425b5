// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans on the links of a topology: times that can be reckoned by hand, and what choosing counts of the same plans.
#include "simulate/topology_fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "choose/cut.h"
#include "choose/loads.h"
#include "simulate/simulate.h"
#include "simulate/trace.h"
#include "topology/text.h"

namespace hocket::simulate {
namespace {

constexpr Picoseconds kMicrosecond = 1'000'000;

TopologyFabric fabric(const std::string& text) {
  Result<Topology> topology = parse_topology("hocket topology 1\n" + text);
  EXPECT_TRUE(topology.ok()) << topology.status().message();
  Result<TopologyFabric> made = TopologyFabric::make(std::move(*topology));
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

std::string refusal(const std::string& text) {
  return TopologyFabric::make(*parse_topology("hocket topology 1\n" + text)).status().message();
}

Program program(Collective collective, std::string_view algorithm, Rank ranks, const CallShape& shape) {
  return *make_program(*find_builder(collective, algorithm), {.ranks = ranks}, shape);
}

// Two sockets with two GPUs each.
constexpr const char* kSockets =
    "cpu cpu0\ncpu cpu1\ngpu a\ngpu b\ngpu c\ngpu d\nlink a - cpu0 pci x16 10 GB/s 0.4 us\n"
    "link b - cpu0 pci x16 10 GB/s 0.4 us\nlink c - cpu1 pci x16 10 GB/s 0.4 us\n"
    "link d - cpu1 pci x16 10 GB/s 0.4 us\nlink cpu0 - cpu1 socket x1 1 GB/s 0.2 us\n";

// The head goes through at once, the end at the rate of the slowest link.
TEST(TopologyFabric, AMessageTakesTheLinksOfItsWay) {
  const TopologyFabric sockets = fabric(kSockets);
  EXPECT_EQ(sockets.hops(0, 1), 2);
  EXPECT_EQ(sockets.hops(0, 3), 3);
  EXPECT_EQ(sockets.cost(0, 3).latency, kMicrosecond);
  EXPECT_EQ(sockets.link_name(sockets.link_at(0, 3, 1)), "cpu0 > cpu1 socket");
  const Program near = program(Collective::kBroadcast, "direct", 2, {.bytes = 10'000});
  EXPECT_EQ(simulate(near, sockets).end, 10'000 * 100 + kMicrosecond * 8 / 10);
  const Program all = program(Collective::kScatter, "direct", 4, {.bytes = 10'000});
  // Three of them, one after the other out of a, two of these over the socket's link.
  const Outcome outcome = simulate(all, sockets);
  const LinkUse& socket = outcome.links[*find_link(sockets, "cpu0 > cpu1 socket")];
  EXPECT_EQ(socket.bytes, 20'000);
  EXPECT_EQ(socket.busy, 20'000 * 1000);
  EXPECT_EQ(outcome.links[*find_link(sockets, "a > cpu0 pci")].bytes, 30'000);
  // The first for b, then the others, whose heads do not wait for their ends.
  EXPECT_EQ(outcome.end, 10'000 * 100 + 20'000 * 1000 + kMicrosecond);
}

// A ring of four crosses the sockets once each way: six quarters, one after the other at the rate of that link, and the
// last is there a latency later.
TEST(TopologyFabric, ASlowLinkMakesARingSlow) {
  const TopologyFabric sockets = fabric(kSockets);
  constexpr int64_t kQuarter = 10'240;
  const Program ring = program(Collective::kAllReduce, "ring", 4, {.bytes = 4 * kQuarter});
  const Outcome healthy = simulate(ring, sockets);
  EXPECT_EQ(healthy.end, 6 * kQuarter * 1000 + kMicrosecond);
  SimulateOptions options;
  options.faults.slow_links = {{*find_link(sockets, "cpu0 > cpu1 socket"), 3}};
  EXPECT_EQ(simulate(ring, sockets, options).end, 3 * 6 * kQuarter * 1000 + kMicrosecond);
  // One that is ten times as wide may be three times as slow.
  options.faults.slow_links = {{*find_link(sockets, "c > cpu1 pci"), 3}};
  EXPECT_EQ(simulate(ring, sockets, options).end, healthy.end);
}

// Files may name vertices so.
TEST(TopologyFabric, NamesInTimelinesAreEscaped) {
  const TopologyFabric odd = fabric("gpu a\"b\ngpu c\\d\nlink a\"b - c\\d nvlink x1 25 GB/s 0.6 us\n");
  ChromeTrace trace;
  SimulateOptions options;
  options.observer = &trace;
  simulate(program(Collective::kBroadcast, "direct", 2, {.bytes = 10'000}), odd, options);
  std::ostringstream out;
  trace.write(out, odd);
  EXPECT_THAT(out.str(), testing::HasSubstr(R"("name":"a\"b > c\\d nvlink")"));
}

TEST(TopologyFabric, FastLinksAreTakenWhereThereAreAny) {
  // Also where they take longer.
  const TopologyFabric mixed = fabric(std::string(kSockets) + "link a - c nvlink x1 25 GB/s 9 us\n");
  EXPECT_EQ(mixed.hops(0, 2), 1);
  EXPECT_EQ(mixed.hops(0, 3), 3);
}

TEST(TopologyFabric, WhoIsNotReachedIsNamed) {
  const TopologyFabric line =
      fabric("gpu a\ngpu b\ngpu c\nlink a - b nvlink x1 25 GB/s 0.6 us\nlink b - c nvlink x1 25 GB/s 0.6 us\n");
  EXPECT_EQ(line.carries(program(Collective::kBroadcast, "direct", 3, {.bytes = 8})).message(),
            "this topology cannot be simulated: broadcast direct: no way leads from a to c, but over other seats");
  EXPECT_TRUE(line.carries(program(Collective::kAllReduce, "ring", 2, {.bytes = 8})).ok());
  EXPECT_EQ(line.carries(program(Collective::kAllReduce, "ring", 4, {.bytes = 8})).message(),
            "this topology cannot be simulated: it has 3 seats for 4 ranks");
}

TEST(TopologyFabric, WhatCannotBeSimulatedIsRefused) {
  EXPECT_EQ(refusal(""), "this topology cannot be simulated: nobody can sit on it");
  EXPECT_EQ(refusal("gpu a\ngpu b\nlink a - b nvlink x1 1e-9 GB/s 1 us\n"),
            "this topology cannot be simulated: the link from a to b carries less than 0.001 GB/s");
  std::string many;
  for (int i = 0; i < 1025; ++i) many += "gpu g" + std::to_string(i) + "\n";
  EXPECT_EQ(refusal(many), "this topology cannot be simulated: 1025 seats and 0 links are too many");
  std::string far = "gpu a\ngpu b\npci p0\nlink a - p0 pci x1 1 GB/s 1 us\n";
  for (int i = 1; i < 260; ++i) {
    far += "pci p" + std::to_string(i) + "\nlink p" + std::to_string(i - 1) + " - p" + std::to_string(i) +
           " pci x1 1 GB/s 1 us\n";
  }
  EXPECT_EQ(refusal(far + "link p259 - b pci x1 1 GB/s 1 us\n"),
            "this topology cannot be simulated: the way from a to b has more than 255 links");
}

// What the model counts of the busiest link is what that link is busy for here, algorithm for algorithm.
TEST(TopologyFabric, LinksAreBusyForAsLongAsChoosingExpects) {
  std::string text = "cpu cpu0\n";
  const int order[] = {0, 3, 5, 1, 7, 2, 6, 4};
  for (int gpu = 0; gpu < 8; ++gpu)
    text += "gpu g" + std::to_string(gpu) + "\nlink g" + std::to_string(gpu) + " - cpu0 pci x1 1 GB/s 1 us\n";
  for (int i = 0; i < 8; ++i)
    text +=
        "link g" + std::to_string(order[i]) + " - g" + std::to_string(order[(i + 1) % 8]) + " nvlink x1 25 GB/s 1 us\n";
  const TopologyFabric scattered = fabric(text);
  const Result<Routes> routes = find_routes(scattered.topology());
  ASSERT_TRUE(routes.ok()) << routes.status().message();
  constexpr int64_t kBytes = int64_t{8} << 20;
  int compared = 0;
  for (const LinkLoad& load : routes->loads) {
    BuildOptions options{.ranks = 8};
    options.routes = routes->rings;
    options.trees = routes->trees;
    const Builder& builder = *find_builder(load.collective, load.algorithm);
    const Cut pieces = cut(builder.build(options), 1 << 16);
    const Result<Program> call = make_program(builder, options,
                                              {.bytes = kBytes,
                                               .window_bytes = static_cast<int64_t>(pieces.window_bytes),
                                               .slice_bytes = static_cast<int64_t>(pieces.slice_bytes)});
    ASSERT_TRUE(call.ok()) << load.algorithm;
    const Outcome outcome = simulate(*call, scattered);
    ASSERT_TRUE(outcome.finished) << load.algorithm;
    const auto busiest = std::ranges::max_element(outcome.links, {}, &LinkUse::busy);
    const auto expected = static_cast<double>(kBytes * (load.byte / 1000));
    EXPECT_NEAR(static_cast<double>(busiest->busy), expected, expected / 1000)
        << name(load.collective) << " " << load.algorithm;
    EXPECT_GE(outcome.end, busiest->busy);
    ++compared;
  }
  EXPECT_GE(compared, 30);
}

}  // namespace
}  // namespace hocket::simulate
