// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Files of other programs: small ones kept here, published ones from ../shared/topologies where that folder is, and
// what is wrong with files that are refused.
#include "topology/read.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/texts.h"
#include "topology/faults.h"
#include "topology/levels.h"
#include "topology/rings.h"
#include "topology/text.h"

namespace hocket::topology {
namespace {

using test::contents;
using test::replaced;

using std::filesystem::path;

std::string fixture(const char* name) { return contents(path(FIXTURES) / name); }

std::string failure(const std::string& text) {
  const Result<Reading> reading = read(text);
  return reading.ok() ? "accepted" : reading.status().message();
}

TEST(ReadNccl, ADumpIsUnderstood) {
  const Result<Reading> reading = read(fixture("two_switches.xml"));
  ASSERT_TRUE(reading.ok()) << reading.status().message();
  const Topology& topology = reading->topology;
  EXPECT_TRUE(reading->remarks.empty());
  EXPECT_EQ(topology.seats().size(), 2U);
  EXPECT_EQ(topology.vertex(0).model, "sm_90");
  const std::string text = to_text(topology);
  EXPECT_NE(text.find("link gpu0 - nvswitch nvlink x6 150 GB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("link gpu0 > gpu1 nvlink x4 100 GB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("link mlx5_1 - network network x1 25 GB/s"), std::string::npos) << text;
  EXPECT_EQ(*parse_topology(text), topology);
}

TEST(ReadNccl, FaultsAreTold) {
  const std::string whole = fixture("two_switches.xml");
  const auto told = [](const std::string& text) {
    const Result<Reading> reading = read(text);
    std::string all;
    if (!reading.ok()) return reading.status().message();
    for (const std::string& remark : reading->remarks) all += remark + '\n';
    for (const std::string& fault : faults(reading->topology)) all += fault + '\n';
    return all;
  };
  EXPECT_EQ(told(replaced(whole, "200000", "400000")), "");
  EXPECT_NE(told(whole).find("mlx5_1 has 25 GB/s of network, most of its equals 50: 50 %"), std::string::npos);
  EXPECT_NE(told(replaced(whole, "<nvlink target=\"0000:11:00.0\" count=\"4\" tclass=\"0x030200\"/>", ""))
                .find("the nvlink link from gpu0 to gpu1 has none back"),
            std::string::npos);
  EXPECT_NE(told(replaced(whole, "target=\"0000:11:00.0\"", "target=\"0000:77:00.0\"")).find("no device 0000:77:00.0"),
            std::string::npos);
}

TEST(ReadNccl, WrongFilesAreRefusedWithTheLine) {
  const std::string whole = fixture("two_switches.xml");
  EXPECT_EQ(failure(replaced(whole, "count=\"6\"", "count=\"-6\"")),
            "line 9: <nvlink>: count=\"-6\" is not a number from 1 to 1024");
  EXPECT_EQ(failure(replaced(whole, "count=\"6\" ", "")), "line 9: <nvlink>: it has no count");
  EXPECT_EQ(failure(replaced(whole, "numaid=\"1\"", "numaid=\"99999999999999999999\"")).substr(0, 12), "line 19: <cp");
  EXPECT_EQ(failure(replaced(whole, "link_width=\"16\"", "link_width=\"16000\"")).substr(0, 12), "line 5: <pci");
  EXPECT_EQ(failure(replaced(whole, "32.0 GT/s", "-32 GT/s")).substr(0, 12), "line 5: <pci");
  EXPECT_EQ(failure(replaced(whole, "speed=\"400000\"", "speed=\"fast\"")).substr(0, 13), "line 14: <net");
  EXPECT_EQ(failure(replaced(whole, "</system>", "")), "line 35: no element found");
  EXPECT_EQ(failure(replaced(whole, "</cpu>", "")), "line 34: mismatched tag");
  EXPECT_EQ(failure(replaced(whole, "<cpu ", "<gpu ")).substr(0, 7), "line 18");
  for (size_t cut = 0; cut + 12 < whole.size(); cut += 37) EXPECT_FALSE(read(whole.substr(0, cut)).ok()) << cut;
}

TEST(ReadXml, HostileFilesAreRefused) {
  EXPECT_NE(failure("<!DOCTYPE system [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]>\n<system>&b;</system>")
                .find("it declares an entity"),
            std::string::npos);
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "<system>";
  EXPECT_NE(failure(deep).find("more than 64 deep"), std::string::npos);
  std::string empty_deep;
  for (int i = 0; i < 64; ++i) empty_deep += "<system>";
  EXPECT_NE(failure(empty_deep + "<pci/>").find("more than 64 deep"), std::string::npos);
  EXPECT_NE(failure("<planet/>").find("no kind of topology begins like this"), std::string::npos);
  EXPECT_NE(failure("  \n").find("only blanks"), std::string::npos);
}

// DGX-1 with V100: every GPU has six NVLinks, and their best rings use all of them.
constexpr const char* kCubeMesh =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\t0-19\t0\nGPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\t0-19\t0\n"
    "GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\t0-19\t0\nGPU3\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tSYS\tNV1\t0-19\t0\n"
    "GPU4\tNV2\tSYS\tSYS\tSYS\t X \tNV1\tNV1\tNV2\t20-39\t1\nGPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\t20-39\t1\n"
    "GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\t20-39\t1\nGPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \t20-39\t1\n";

TEST(ReadSmi, CubeMesh) {
  const Result<Reading> reading = read(kCubeMesh);
  ASSERT_TRUE(reading.ok()) << reading.status().message();
  EXPECT_TRUE(faults(reading->topology).empty());
  const Rings rings = find_rings(reading->topology);
  EXPECT_DOUBLE_EQ(rings.gb_per_s(), 150);
  EXPECT_DOUBLE_EQ(rings.bound_gb_per_s, 150);
  ASSERT_EQ(levels(reading->topology).size(), 1U);
  EXPECT_EQ(levels(reading->topology)[0].groups, (std::vector<std::vector<int32_t>>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(ReadSmi, WrongMatricesAreRefused) {
  EXPECT_EQ(failure(replaced(kCubeMesh, "NV2", "NV99")), "line 2: 'NV99' is no way between devices");
  EXPECT_EQ(failure(replaced(kCubeMesh, "GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \t20-39\t1\n", "")),
            "line 8: the matrix has 8 columns but 7 rows");
  EXPECT_EQ(failure("GPU0 GPU1 CPU\nGPU0 X\n"), "line 2: GPU0 has 1 cells, not 2");
  EXPECT_EQ(failure("GPU0 GPU1 CPU\nGPU0 NV1 X\n"), "line 2: expected X in the diagonal");
  EXPECT_EQ(failure("GPU0\n"), "line 1: the matrix has 1 columns but 0 rows");
}

TEST(ReadAstra, DimensionsAreRingsSwitchesAndAllWithAll) {
  const Result<Reading> reading = read(
      "# eight\ntopology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 4, 2, 1 ]  # NPUs\n"
      "bandwidth: [ 100, tbd, 5 ]\nlatency: [ 500, tbd, 0 ]\n");
  ASSERT_TRUE(reading.ok()) << reading.status().message();
  const Topology& topology = reading->topology;
  EXPECT_EQ(topology.all(Vertex::Kind::kGpu).size(), 8U);
  EXPECT_EQ(topology.all(Vertex::Kind::kFabric).size(), 8U);
  EXPECT_EQ(topology.links().size(), 2U * (2 * 4 + 4 + 8));
  EXPECT_EQ(reading->remarks, (std::vector<std::string>{"no bandwidth is told of dimension 2: NVLink's is assumed",
                                                        "no latency is told of dimension 2: NVLink's is assumed"}));
  const auto link = [&](std::string_view from, std::string_view to) {
    return *std::ranges::find_if(topology.links(), [&](const Link& one) {
      return topology.vertex(one.from).name == from && topology.vertex(one.to).name == to;
    });
  };
  EXPECT_DOUBLE_EQ(link("npu3", "npu0").gb_per_s, 100);
  EXPECT_DOUBLE_EQ(link("npu3", "npu0").latency_us, 0.5);
  EXPECT_DOUBLE_EQ(link("npu2", "npu6").gb_per_s, 25);
}

TEST(ReadAstra, IsKnownByItsFirstKey) {
  const std::string rest = ": [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n";
  for (const std::string begin : {"topology", "topology ", "---\ntopology", "# four\n\n--- # begins\n topology\t",
                                  "\xEF\xBB\xBFtopology", "\xEF\xBB\xBF---\ntopology"}) {
    EXPECT_TRUE(read(begin + rest).ok()) << begin;
  }
  EXPECT_EQ(failure("topology" + rest + "---\n"), "line 5: expected one of topology, npus_count, bandwidth, latency");
}

TEST(ReadAstra, WhatIsWrongIsNamed) {
  const std::string right = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n";
  ASSERT_TRUE(read(right).ok());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = right;
    return failure(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_EQ(with("Ring", "Torus"), "line 1: expected Ring, Switch or FullyConnected");
  EXPECT_EQ(with("[ Ring ]", "Ring"), "line 1: expected a list in brackets");
  EXPECT_EQ(with("4", "0"), "line 2: expected numbers whose product is 1 to 65536");
  EXPECT_EQ(with("4", "99999999999999999999"), "line 2: expected numbers whose product is 1 to 65536");
  EXPECT_EQ(with("4", "4, 4"), "line 2: not as many dimensions as in 'topology'");
  EXPECT_EQ(with("[ 1 ]", "[ 1" + std::string(40, ',') + " ]"), "line 3: more than 16 dimensions");
  EXPECT_EQ(with("[ 1 ]", "[ -1 ]"), "line 3: expected GB/s above 0, at most 1000000");
  EXPECT_EQ(with("[ 1 ]", "[ nan ]"), "line 3: expected GB/s above 0, at most 1000000");
  EXPECT_EQ(with("[ 1 ]", "[ 50GB/s ]"), "line 3: bandwidth '50GB/s' is neither a number nor tbd");
  EXPECT_EQ(with("latency: [ 1 ]", "latency: [ 0.5us ]"), "line 4: latency '0.5us' is neither a number nor tbd");
  EXPECT_EQ(with("latency: [ 1 ]", "latency: [ ]"), "line 4: latency '' is neither a number nor tbd");
  EXPECT_EQ(with("latency", "bandwidth"), "line 4: 'bandwidth' a second time");
  EXPECT_EQ(with("latency: [ 1 ]", "# none"), "line 1: 'latency' is told nowhere");
  EXPECT_EQ(with("latency", "delay"), "line 4: expected one of topology, npus_count, bandwidth, latency");
  EXPECT_EQ(failure("topology: [ FullyConnected ]\nnpus_count: [ 65536 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n"),
            "line 2: 4294901760 links, more than 1048576");
}

TEST(ReadGraphs, ChannelsAreListsOfGpus) {
  const auto graphs = read_nccl_graphs(
      "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" speedintra=\"12\">"
      "<channel><net dev=\"0\"/><gpu dev=\"0\"/><gpu dev=\"1\"/></channel></graph></graphs>");
  ASSERT_TRUE(graphs.ok()) << graphs.status().message();
  ASSERT_EQ(graphs->size(), 1U);
  EXPECT_EQ((*graphs)[0].channels, (std::vector<std::vector<int32_t>>{{0, 1}}));
  EXPECT_FALSE(read_nccl_graphs("<graphs><graph pattern=\"4\"/></graphs>").ok());
  EXPECT_FALSE(read_nccl_graphs("<system/>").ok());
}

class Published : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(SHARED_TOPOLOGIES)) GTEST_SKIP() << "there is no " << SHARED_TOPOLOGIES;
  }
};

TEST_F(Published, AllAreRead) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SHARED_TOPOLOGIES)) {
    const path file = entry.path();
    const bool is_matrix = file.parent_path().filename() == "smi";
    if (file.extension() != ".xml" && file.extension() != ".yml" && !is_matrix) continue;
    ++files;
    const std::string text = contents(file);
    if (file.filename().string().find("graph") != std::string::npos) {
      EXPECT_TRUE(read_nccl_graphs(text).ok()) << file;
      continue;
    }
    const Result<Reading> reading = read(text);
    ASSERT_TRUE(reading.ok()) << file << ": " << reading.status().message();
    const Result<Topology> again = parse_topology(to_text(reading->topology));
    ASSERT_TRUE(again.ok()) << file << ": " << again.status().message();
    EXPECT_EQ(*again, reading->topology) << file;
  }
  EXPECT_GE(files, 48);
}

TEST_F(Published, RingsReachTheKnownOptimum) {
  for (const auto& [file, gb_per_s] : {std::pair{"oci-hpc/H100-topology.xml", 450.0},
                                       {"oci-hpc/GB300MP.xml", 900.0},
                                       {"hwloc/nvidiaDGX2.xml", 150.0},
                                       {"smi/8xA100-p4d.24xlarge.txt", 300.0},
                                       {"smi/8xH100-HGX.txt", 450.0},
                                       {"smi/8xV100-SXM2-hybrid-cube-mesh.txt", 150.0},
                                       {"rccl-topo_expl/topo_8p_940.xml", 448.0},
                                       {"rccl-topo_expl/topo_8p_950.xml", 537.6},
                                       {"rccl-topo_expl/topo_8p6l.xml", 276.0}}) {
    const Result<Reading> reading = read(contents(path(SHARED_TOPOLOGIES) / file));
    ASSERT_TRUE(reading.ok()) << file;
    EXPECT_TRUE(faults(reading->topology).empty()) << file << ": " << faults(reading->topology)[0];
    EXPECT_DOUBLE_EQ(find_rings(reading->topology).gb_per_s(), gb_per_s) << file;
  }
}

// The loss that once went unnoticed: one GPU of two trays has no NVLink entry.
TEST_F(Published, AMissingNvlinkIsTold) {
  std::string text = contents(path(SHARED_TOPOLOGIES) / "oci-hpc/GB300MP.xml");
  const size_t rank = text.find("rank=\"5\"");
  const size_t begin = text.find("<nvlink", rank);
  text.erase(begin, text.find("/>", begin) + 2 - begin);
  const Result<Reading> reading = read(text);
  ASSERT_TRUE(reading.ok());
  const std::vector<std::string> told = faults(reading->topology);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].find("gpu5 has 0 links to other GPUs, its equals up to 18: rings carry "), 0U) << told[0];
  EXPECT_NE(told[0].find("where 900 GB/s were possible"), std::string::npos) << told[0];
}

}  // namespace
}  // namespace hocket::topology
