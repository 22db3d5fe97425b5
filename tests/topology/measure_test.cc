// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What is measured goes before what is claimed, and is told apart from it. How fast this machine is, no test says.
#include "topology/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/text.h"

namespace hocket::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Topology host(const std::string& more = "") {
  return *parse_topology(
      "hocket topology 1\ncpu cpu0\ncpu cpu1\ncomplex complex0\nnic eth0\nnetwork network\n"
      "link complex0 - cpu0 cache x1 32 GB/s 0.1 us\nlink cpu0 - cpu1 socket x1 20 GB/s 0.3 us\n"
      "link eth0 - cpu0 pci x1 12 GB/s 0.4 us\nlink eth0 - network network x1 1.25 GB/s 1.5 us\n" +
      more);
}

const Link& link(const Topology& topology, std::string_view from, std::string_view to) {
  for (const int32_t number : topology.links_from(*topology.find(from))) {
    if (topology.link(number).to == *topology.find(to)) return topology.link(number);
  }
  throw std::runtime_error("no such link");
}

// The vertices of the machine below are those of host().
const Measurements kSeen{.memory = {{"complex0", "cpu0", 11}, {"cpu0", "cpu1", 7}}, .cores = {}};

TEST(Measure, WhatWasSeenReplacesWhatIsClaimed) {
  const Result<Topology> topology = with_measured(host(), kSeen);
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  for (const auto& [from, to] : {std::pair{"complex0", "cpu0"}, {"cpu0", "complex0"}}) {
    EXPECT_DOUBLE_EQ(link(*topology, from, to).gb_per_s, 11);
    EXPECT_TRUE(link(*topology, from, to).measured);
  }
  // What node 0 reads of node 1 comes from there; the other way nobody read.
  EXPECT_DOUBLE_EQ(link(*topology, "cpu1", "cpu0").gb_per_s, 7);
  EXPECT_TRUE(link(*topology, "cpu1", "cpu0").measured);
  EXPECT_DOUBLE_EQ(link(*topology, "cpu0", "cpu1").gb_per_s, 20);
  EXPECT_FALSE(link(*topology, "cpu0", "cpu1").measured);
  EXPECT_FALSE(link(*topology, "eth0", "cpu0").measured);
}

TEST(Measure, TheTextTellsThemApart) {
  const Topology topology = *with_measured(host(), kSeen);
  const std::string text = to_text(topology);
  EXPECT_THAT(text, HasSubstr("link complex0 - cpu0 cache x1 11 GB/s 0.1 us measured\n"));
  EXPECT_THAT(text, HasSubstr("link cpu0 > cpu1 socket x1 20 GB/s 0.3 us\n"));
  EXPECT_EQ(*parse_topology(text), topology);
  EXPECT_FALSE(parse_topology("hocket topology 1\ngpu a\ngpu b\nlink a - b pci x1 1 GB/s 1 us guessed\n").ok());
  EXPECT_FALSE(parse_topology("hocket topology 1\ngpu a\ngpu b\nlink a - b pci x1 1 GB/s 1 us measured twice\n").ok());
}

TEST(Measure, TheOnlyNicIsTheOneThatRanksUsed) {
  const Topology one = *with_measured(host(), NetworkRate{.gb_per_s = 0.9, .latency_us = 40});
  EXPECT_DOUBLE_EQ(link(one, "eth0", "network").gb_per_s, 0.9);
  EXPECT_DOUBLE_EQ(link(one, "network", "eth0").latency_us, 20);
  EXPECT_TRUE(link(one, "eth0", "network").measured);
  const Topology two = host("nic eth1\nlink eth1 - network network x1 1.25 GB/s 1.5 us\n");
  EXPECT_EQ(*with_measured(two, NetworkRate{.gb_per_s = 0.9, .latency_us = 40}), two);
}

TEST(Measure, LinksFarBelowTheirClaimAreNamed) {
  EXPECT_THAT(
      slow_links(host(), *with_measured(host(), kSeen)),
      ElementsAre("complex0 - cpu0 carries 11 GB/s where 32 are claimed: what crosses it takes 2.9 times as long",
                  "cpu0 - complex0 carries 11 GB/s where 32 are claimed: what crosses it takes 2.9 times as "
                  "long",
                  "cpu1 - cpu0 carries 7 GB/s where 20 are claimed: what crosses it takes 2.9 times as long"));
  EXPECT_TRUE(slow_links(host(), host()).empty());
}

// Of this machine, whatever it is like: no rate is nothing, and cores are asked in pairs of two.
TEST(Measure, ThisMachineAnswers) {
  Machine small = machine();
  small.memory_bytes = std::min(small.memory_bytes, size_t{256} << 20);  // so that it does not take long
  const Measurements seen = measure(small);
  for (const MemoryRate& rate : seen.memory) EXPECT_GT(rate.gb_per_s, 0) << rate.reader << " " << rate.node;
  for (const CorePair& pair : seen.cores) {
    EXPECT_NE(pair.first, pair.second);
    EXPECT_GT(pair.one_way_ns, 0);
    EXPECT_GT(pair.gb_per_s, 0);
  }
  EXPECT_FALSE(measure_pair(-1, 0).has_value());
  Machine nothing;
  EXPECT_TRUE(measure(nothing).memory.empty());
  EXPECT_TRUE(measure(nothing).cores.empty());
}

}  // namespace
}  // namespace hocket::topology
