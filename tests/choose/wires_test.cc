// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What is synthesised for a topology is not behind what its search finds.
#include "choose/wires.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "prove/prove.h"
#include "tests/texts.h"
#include "topology/read.h"
#include "topology/rings.h"
#include "topology/trees.h"

namespace hocket {
namespace {

using std::filesystem::path;

TEST(Wires, SwitchesAndSlowWaysAreKnown) {
  // Two sockets with two GPUs each, of which one has a link of half the rate.
  const Result<topology::Reading> reading = topology::read(
      "hocket topology 1\ncpu c0\ncpu c1\nlink c0 - c1 socket x1 40 GB/s 0.2 us\ngpu a\ngpu b\ngpu c\ngpu d\n"
      "link a - c0 pci x16 10 GB/s 0.4 us\nlink b - c0 pci x16 10 GB/s 0.4 us\n"
      "link c - c1 pci x16 10 GB/s 0.4 us\nlink d - c1 pci x16 5 GB/s 0.4 us\n");
  ASSERT_TRUE(reading.ok()) << reading.status().message();
  const Result<OnWires> made = synthesise_on(Collective::kAllReduce, reading->topology);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(prove(made->synthesis.plans, {.rendezvous = false}).ok());
  EXPECT_EQ(made->wires, 12U);
  EXPECT_LE(made->bus_gb_per_s, 5.0001);
  EXPECT_GE(made->bus_gb_per_s, 4.9);
}

TEST(Wires, PublishedMachinesAreNotBehindTheirRings) {
  if (!std::filesystem::is_directory(SHARED_TOPOLOGIES)) GTEST_SKIP() << "there is no " << SHARED_TOPOLOGIES;
  int machines = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SHARED_TOPOLOGIES)) {
    const path file = entry.path();
    if (!entry.is_regular_file()) continue;
    const Result<topology::Reading> reading = topology::read(test::contents(file));
    if (!reading.ok()) continue;
    const topology::Rings rings = topology::find_rings(reading->topology);
    const topology::Trees trees = topology::find_trees(reading->topology);
    if (rings.orders.empty()) continue;
    const Result<OnWires> made = synthesise_on(Collective::kAllReduce, reading->topology);
    ASSERT_TRUE(made.ok()) << file << ": " << made.status().message();
    EXPECT_TRUE(prove(made->synthesis.plans, {.rendezvous = false}).ok()) << file;
    std::printf("%-60s %7.1f GB/s, rings %7.1f, trees %7.1f, bound %7.1f: %d parts %s\n",
                file.lexically_relative(SHARED_TOPOLOGIES).c_str(), made->bus_gb_per_s, rings.gb_per_s(),
                trees.bus_gb_per_s(), made->bound_gb_per_s, made->synthesis.parts, made->synthesis.along.c_str());
    // Twelve core complexes share the ways between four sockets: the one machine where parts wait for each other.
    const bool has_gpus = !reading->topology.all(Vertex::Kind::kGpu).empty();
    EXPECT_GE(made->bus_gb_per_s, (has_gpus ? 0.999 : 0.87) * rings.gb_per_s()) << file;
    EXPECT_GE(made->bus_gb_per_s, 0.87 * trees.bus_gb_per_s()) << file;
    EXPECT_LE(made->bus_gb_per_s, 1.001 * made->bound_gb_per_s) << file;
    ++machines;
  }
  EXPECT_GE(machines, 40);
}

}  // namespace
}  // namespace hocket
