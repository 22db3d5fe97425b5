// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The graph, its limits and its text form.
#include "topology/topology.h"

#include <gtest/gtest.h>

#include "topology/text.h"

namespace hocket {
namespace {

constexpr std::string_view kPair = R"(hocket topology 1
gpu gpu0 sm_90
gpu gpu1 sm_90
cpu cpu0
host 1
gpu gpu2
network net
link gpu0 - gpu1 nvlink x18 450 GB/s 0.6 us
link gpu0 - cpu0 pci x16 63.01538461538462 GB/s 0.4 us
link gpu1 > cpu0 pci x16 1e-05 GB/s 0 us
)";

TEST(TopologyText, ComesBackAsItWas) {
  const Result<Topology> topology = parse_topology(kPair);
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(to_text(*topology), kPair);
  EXPECT_EQ(topology->links().size(), 5U);
  EXPECT_EQ(topology->vertex(4).host, 1);
  EXPECT_EQ(topology->seats(), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_EQ(topology->find("cpu0"), 2);
  EXPECT_EQ(topology->links_from(0).size(), 2U);
  EXPECT_EQ(topology->links_from(4).size(), 0U);
}

TEST(TopologyText, BlanksAndCommentsDoNotMatter) {
  const Result<Topology> topology = parse_topology("# a\n\n  hocket topology 1 \r\n gpu  g # b\n");
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(topology->vertices().size(), 1U);
}

TEST(TopologyText, WrongLinesAreNamed) {
  const std::string head = "hocket topology 1\ngpu a\ngpu b\n";
  for (const auto& [line, reason] :
       {std::pair{"what c", "line 4: expected host, link or a kind of vertex, found 'what'"},
        {"gpu a", "line 4: there is a vertex 'a' already"},
        {"gpu", "line 4: expected a name"},
        {"gpu c d e", "line 4: expected the end of the line, found 'e'"},
        {"host x", "line 4: expected the number of a host"},
        {"host -1\ngpu c", "line 5: c: host -1"},
        {"link a - c nvlink x1 1 GB/s 1 us", "line 4: there is no vertex 'c' above"},
        {"link a = b nvlink x1 1 GB/s 1 us", "line 4: expected '-' or '>'"},
        {"link a - b string x1 1 GB/s 1 us", "line 4: expected a kind of link"},
        {"link a - b nvlink 1 1 GB/s 1 us", "line 4: expected a number of wires"},
        {"link a - b nvlink x1 1 TB/s 1 us", "line 4: expected a number of GB/s"},
        {"link a - b nvlink x1 1 GB/s 1", "line 4: expected a number of us"},
        {"link a - b nvlink x0 1 GB/s 1 us", "line 4: the link from a to b has 0 wires"},
        {"link a - b nvlink x1 nan GB/s 1 us", "line 4: the link from a to b carries nan GB/s"},
        {"link a - b nvlink x1 0 GB/s 1 us", "line 4: the link from a to b carries 0 GB/s"},
        {"link a - b nvlink x1 1 GB/s -1 us", "line 4: the link from a to b takes -1 us"},
        {"link a > a nvlink x1 1 GB/s 1 us", "line 4: the link from a to a ends where it begins"},
        {"link a - b nvlink x1 1 GB/s 1 us\nlink b > a nvlink x2 1 GB/s 1 us",
         "line 5: two links of kind nvlink go from b to a"}}) {
    const Result<Topology> topology = parse_topology(head + line);
    ASSERT_FALSE(topology.ok()) << line;
    EXPECT_NE(topology.status().message().find(reason), std::string::npos) << topology.status().message();
  }
  EXPECT_FALSE(parse_topology("").ok());
  EXPECT_FALSE(parse_topology("gpu a\n").ok());
}

TEST(Topology, SeatsAreTheNearestThingToDevices) {
  const auto seats = [](std::string_view text) { return parse_topology(text)->seats(); };
  EXPECT_EQ(seats("hocket topology 1\ncpu c\ncomplex x\ncomplex y\n"), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(seats("hocket topology 1\ncpu c\nnic n\n"), (std::vector<int32_t>{0}));
}

}  // namespace
}  // namespace hocket
