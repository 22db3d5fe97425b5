// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What is written is read again: the same machine, or remarks that say what is lost.
#include "topology/write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "tests/texts.h"
#include "topology/text.h"

namespace hocket::topology {
namespace {

using std::filesystem::path;
using test::contents;
using test::replaced;
using testing::HasSubstr;

Topology known(const std::string& text) {
  Result<Reading> reading = read(text);
  EXPECT_TRUE(reading.ok()) << reading.status().message();
  return reading.ok() ? std::move(reading->topology) : Topology();
}

std::string fixture(const char* name) { return contents(path(FIXTURES) / name); }

TEST(WriteNccl, WhatWasReadComesBack) {
  const Topology topology = known(fixture("two_switches.xml"));
  const Result<Writing> writing = write_nccl(topology);
  ASSERT_TRUE(writing.ok()) << writing.status().message();
  EXPECT_THAT(writing->remarks, testing::IsEmpty());
  EXPECT_EQ(known(writing->text), topology) << writing->text;
  EXPECT_THAT(writing->text, HasSubstr("<pci busid=\"0000:11:00.0\" class=\"0x030200\""));
  EXPECT_THAT(writing->text, HasSubstr("<nvlink target=\"0000:21:00.0\" count=\"4\" tclass=\"0x030200\"/>"));
  EXPECT_THAT(writing->text, HasSubstr("link_speed=\"32.0 GT/s PCIe\" link_width=\"16\""));
}

TEST(WriteNccl, WhatItsFormCannotSayIsTold) {
  const std::string text =
      "hocket topology 1\ncpu one\ngpu a\ngpu b\ncomplex c\nlink a - one pci x16 12 GB/s 0.4 us\n"
      "link b - one pci x16 12 GB/s 0.4 us\nlink c - one cache x1 32 GB/s 0.1 us\nlink a - b nvlink x4 110 GB/s 0.6 "
      "us\n";
  const Result<Writing> writing = write_nccl(known(text));
  ASSERT_TRUE(writing.ok()) << writing.status().message();
  EXPECT_THAT(
      writing->remarks,
      testing::ElementsAre("0 of 1 vertices of the kind complex are told",
                           "nvlink links carry 200 GB/s together, not 220", "cache links carry 0 GB/s together, not 64",
                           "2 pairs of seats are told otherwise, as 100 GB/s, not 110, from a to b",
                           "schedules are bounded by 100 GB/s, not 110"));
  // A rate that so many wires of some generation have is kept.
  EXPECT_EQ(write_nccl(known(replaced(text, "110", "100")))->remarks.size(), 2U);
}

TEST(WriteNccl, GpusWithoutAPlaceGetOne) {
  const std::string text = "hocket topology 1\ngpu a & @\ngpu b <\"> @\nlink a - b nvlink x4 100 GB/s 0.6 us\n";
  const Result<Writing> writing = write_nccl(known(text));
  ASSERT_TRUE(writing.ok()) << writing.status().message();
  const Topology again = known(writing->text);
  EXPECT_EQ(again.vertex(0).bus, "f000:00:00.0");
  EXPECT_EQ(again.vertex(1).bus, "f000:00:01.0");
  // What they hang from is not there, and neither is its link.
  EXPECT_THAT(writing->remarks, testing::ElementsAre("1 of 0 vertices of the kind cpu are told",
                                                     "pci links carry 48 GB/s together, not 0"));
}

TEST(WriteNccl, InventedPlacesAreNobodyElses) {
  const std::string text =
      "hocket topology 1\ncpu cpu0\ngpu gpu0 sm_70\nfabric f\ngpu gpu1 sm_70 @f000:00:00.0\n"
      "link gpu0 - cpu0 pci x16 12 GB/s 0.4 us\nlink gpu1 - cpu0 pci x16 12 GB/s 0.4 us\n"
      "link gpu0 - cpu0 nvlink x3 75 GB/s 0.6 us\nlink gpu0 - f nvlink x2 50 GB/s 0.6 us\n"
      "link gpu1 - f nvlink x2 50 GB/s 0.6 us\n";
  const Result<Writing> writing = write_nccl(known(text));
  ASSERT_TRUE(writing.ok()) << writing.status().message();
  EXPECT_THAT(writing->remarks, testing::IsEmpty());
  const Topology again = known(writing->text);
  EXPECT_EQ(again.vertex(0).bus, "f000:00:01.0");
  EXPECT_EQ(again.vertex(1).bus, "f000:00:00.0");
}

// NCCL refuses, or takes for something else, what breaks these rules.
TEST(WriteNccl, WhatItSaysNcclKnows) {
  std::string text = "hocket topology 1\ncpu cpu0\nnic p RoCE-v2:10.1.2.3\nnic q 0x1f\nnetwork n\n";
  for (const int gpu : {2, 0, 1}) {
    const std::string name = "g" + std::to_string(gpu);
    const char* rate = gpu == 2 ? "60" : gpu == 1 ? "4" : "12";
    text += "gpu " + name + " sm_90\nlink " + name + " - cpu0 pci x16 " + rate + " GB/s 0.4 us\n";
  }
  for (const char* port : {"p", "q"})
    text +=
        std::string("link ") + port + " - cpu0 pci x1 12 GB/s 0.4 us\nlink " + port + " - n network x1 25 GB/s 1 us\n";
  const std::string written = write_nccl(known(text))->text;
  EXPECT_THAT(written, HasSubstr("link_speed=\"32.0 GT/s PCIe\" link_width=\"16\""));
  EXPECT_THAT(written, HasSubstr("link_speed=\"2.5 GT/s PCIe\" link_width=\"16\""));
  EXPECT_THAT(written, HasSubstr("<gpu dev=\"2\" sm=\"90\" rank=\"2\">"));
  EXPECT_THAT(written, HasSubstr("<net name=\"p\" dev=\"0\" speed=\"200000\"/>"));
  EXPECT_THAT(written, HasSubstr("<net name=\"q\" dev=\"1\" speed=\"200000\" guid=\"0x1f\"/>"));
  EXPECT_THAT(written, testing::Not(HasSubstr("gdr=")));
}

// The links of a NUMA node need not be in the order of the ranks.
TEST(WriteNccl, GpusAreNumberedByTheirRanksOnTheirHost) {
  const std::string written =
      write_nccl(known("hocket topology 1\ncpu cpu0\ngpu a\ngpu b\nhost 1\ncpu cpu0@1\ngpu c\ngpu d\n"
                       "link b - cpu0 pci x16 12 GB/s 0.4 us\nlink a - cpu0 pci x16 12 GB/s 0.4 us\n"
                       "link d - cpu0@1 pci x16 12 GB/s 0.4 us\nlink c - cpu0@1 pci x16 12 GB/s 0.4 us\n"))
          ->text;
  for (const char* gpu :
       {"dev=\"0\" rank=\"0\"", "dev=\"1\" rank=\"1\"", "dev=\"0\" rank=\"2\"", "dev=\"1\" rank=\"3\""})
    EXPECT_THAT(written, HasSubstr(gpu));
}

TEST(WriteNccl, APortBesideGpusGetsAnAdapterThatIsNotRead) {
  const Topology topology = known(
      "hocket topology 1\ncpu cpu0\npci p0\ngpu a sm_90\nnic mlx5_0\nnetwork net\n"
      "link p0 - cpu0 pci x16 12 GB/s 0.4 us\nlink a - p0 pci x16 12 GB/s 0.4 us\n"
      "link mlx5_0 - p0 pci x8 15.753846153846154 GB/s 0.4 us\nlink mlx5_0 - net network x1 25 GB/s 1.5 us\n");
  const Result<Writing> writing = write_nccl(topology);
  ASSERT_TRUE(writing.ok()) << writing.status().message();
  EXPECT_THAT(writing->remarks, testing::IsEmpty());
  EXPECT_THAT(writing->text, HasSubstr("<pci busid=\"f100:00:01.0\" class=\"0x020000\" invented=\"1\""));
}

TEST(WriteNccl, NumbersAndPlacesAreThereOnce) {
  const Topology topology = known(
      "hocket topology 1\ncpu one\ncpu cpu0\ncpu cpu99999999999\npci pci0000:01:00.0\npci other\n"
      "nic nic0000:01:00.0\ngpu a sm_90 @0000:01:00.0\nlink pci0000:01:00.0 - cpu0 pci x16 12 GB/s 0.4 us\n"
      "link nic0000:01:00.0 - pci0000:01:00.0 pci x16 12 GB/s 0.4 us\nlink a - other pci x16 12 GB/s 0.4 us\n"
      "link other - cpu0 pci x16 12 GB/s 0.4 us\n");
  const std::string written = write_nccl(topology)->text;
  for (const char* once :
       {"numaid=\"0\"", "numaid=\"1\"", "numaid=\"2\"", "busid=\"0000:01:00.0\"", "busid=\"f000:00:00.0\""}) {
    const size_t first = written.find(once);
    EXPECT_NE(first, std::string::npos) << once << written;
    EXPECT_EQ(written.find(once, first + 1), std::string::npos) << once << written;
  }
}

TEST(WriteNccl, NamesAreEscaped) {
  const std::string text = replaced(fixture("two_switches.xml"), "name=\"mlx5_0\"", "name=\"&lt;&quot;&amp;>\"");
  const Topology topology = known(text);
  EXPECT_TRUE(topology.find("<\"&>").has_value());
  EXPECT_EQ(known(write_nccl(topology)->text), topology);
}

TEST(WriteNccl, WhatItCannotHoldIsRefused) {
  EXPECT_EQ(write_nccl(known("hocket topology 1\ncpu a\n")).status().message(),
            "NCCL's topology: ranks sit on GPUs, of which there are none");
  std::string deep = "hocket topology 1\ncpu p0\n";
  for (int i = 1; i < 100; ++i) {
    deep += "pci p" + std::to_string(i) + "\nlink p" + std::to_string(i - 1) + " - p" + std::to_string(i) +
            " pci x1 1 GB/s 1 us\n";
  }
  deep += "gpu g\nlink p99 - g pci x1 1 GB/s 1 us\n";
  EXPECT_EQ(write_nccl(known(deep)).status().message(), "NCCL's topology: p57 hangs more than 56 deep");
  EXPECT_EQ(write_smi(known(deep)).status().message(), "the matrix of nvidia-smi: g hangs more than 64 deep");
}

TEST(WriteSmi, WhatWasReadComesBack) {
  const Topology topology = known(
      "\tGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\tSYS\tPIX\tSYS\tN/A\t0\n"
      "GPU1\tNV4\t X \tSYS\tNODE\tSYS\tN/A\t0\nGPU2\tSYS\tSYS\t X \tSYS\tNODE\tN/A\t1\n"
      "NIC0\tPIX\tNODE\tSYS\t X \tSYS\tN/A\t0\nNIC1\tSYS\tSYS\tNODE\tSYS\t X \tN/A\t1\n");
  const Result<Writing> writing = write_smi(topology);
  ASSERT_TRUE(writing.ok()) << writing.status().message();
  EXPECT_THAT(writing->remarks, testing::IsEmpty());
  EXPECT_EQ(known(writing->text), topology) << writing->text;
  EXPECT_THAT(writing->text, HasSubstr("GPU1\tNV4\t X \tSYS\tNODE\tSYS\tN/A\t0\n"));
  EXPECT_THAT(writing->text, HasSubstr("  NIC1: nic1\n"));
}

TEST(WriteSmi, SwitchesAreTold) {
  const Result<Writing> writing = write_smi(known(fixture("two_switches.xml")));
  ASSERT_TRUE(writing.ok()) << writing.status().message();
  EXPECT_THAT(writing->text, HasSubstr("GPU0\t X \tNV10\tPIX\tSYS\tN/A\t0\n"));
  EXPECT_THAT(writing->text, HasSubstr("NIC1\tSYS\tPIX\tSYS\t X \tN/A\t1\n"));
  EXPECT_THAT(writing->remarks, testing::Contains(HasSubstr("vertices of the kind fabric")));
}

TEST(WriteSmi, WhatItCannotHoldIsRefused) {
  EXPECT_EQ(write_smi(known("hocket topology 1\ncpu a\n")).status().message(),
            "the matrix of nvidia-smi: there are no GPUs");
  EXPECT_EQ(write_smi(known("hocket topology 1\ngpu a\nhost 1\ngpu b\n")).status().message(),
            "the matrix of nvidia-smi: there are several hosts");
}

TEST(WriteHwloc, WhatWasReadComesBack) {
  const Topology topology = known(
      "<topology version=\"2.0\"><object type=\"Machine\" gp_index=\"1\"><object type=\"Group\" gp_index=\"2\">"
      "<object type=\"NUMANode\" os_index=\"0\" gp_index=\"3\"/><object type=\"L3Cache\" gp_index=\"4\"/>"
      "<object type=\"Bridge\" gp_index=\"5\" bridge_type=\"0-1\">"
      "<object type=\"Bridge\" gp_index=\"6\" bridge_type=\"1-1\" pci_busid=\"0000:10:00.0\" pci_link_speed=\"31.5\">"
      "<object type=\"PCIDev\" gp_index=\"7\" pci_busid=\"0000:12:00.0\" pci_type=\"0302 [10de:2330] [0000:0000] a1\" "
      "pci_link_speed=\"63.0\"><object type=\"OSDev\" gp_index=\"8\" name=\"nvml1\"/></object>"
      "<object type=\"PCIDev\" gp_index=\"9\" pci_busid=\"0000:11:00.0\" pci_type=\"0302 [10de:2330] [0000:0000] a1\">"
      "<object type=\"OSDev\" gp_index=\"10\" name=\"nvml0\"/></object></object></object>"
      "<object type=\"Bridge\" gp_index=\"11\" bridge_type=\"0-1\"><object type=\"PCIDev\" gp_index=\"12\" "
      "pci_busid=\"0000:e1:00.0\" pci_type=\"0207 [15b3:1021] [0000:0000] 00\"/></object></object></object>"
      "<distances2 type=\"OSDev\" nbobjs=\"2\" kind=\"9\" name=\"NVLinkBandwidth\" indexing=\"gp\">"
      "<indexes length=\"5\">10 8 </indexes><u64values length=\"14\">0 50000 25000 0 "
      "</u64values></distances2></topology>");
  // By the driver's numbers, not by their places.
  EXPECT_EQ(topology.vertex(*topology.find("gpu0")).bus, "0000:11:00.0");
  EXPECT_EQ(topology.vertex(*topology.find("nic0000:e1:00.0")).model, "15b3:1021");
  EXPECT_FALSE(topology.find("nvswitch").has_value());  // objects of one type are numbered without it
  const Result<Writing> writing = write_hwloc(topology);
  ASSERT_TRUE(writing.ok()) << writing.status().message();
  EXPECT_THAT(writing->remarks, testing::IsEmpty());
  const Topology again = known(writing->text);
  EXPECT_THAT(again.vertices(), testing::ElementsAreArray(topology.vertices()));
  EXPECT_EQ(again, topology) << writing->text;
  EXPECT_THAT(writing->text, HasSubstr("bridge_pci=\"0000:[10-12]\""));
  EXPECT_THAT(writing->text, HasSubstr("bridge_pci=\"0000:[11-12]\" pci_busid=\"0000:10:00.0\""));
}

// One device of each kind, and what hwloc has no words for.
TEST(WriteHwloc, WhatItsFormCannotSayIsTold) {
  const Topology topology = known(
      "hocket topology 1\ncpu cpu0\ncpu cpu1\npci adapter\nnic mlx5_0 0x1f\nnetwork net\nfabric s\n"
      "gpu a gfx942\ngpu b gfx942\nlink a - cpu0 pci x16 12 GB/s 0.4 us\nlink b - cpu1 pci x16 12 GB/s 0.4 us\n"
      "link a - b xgmi x1 64 GB/s 0.6 us\nlink a - s nvlink x1 20 GB/s 0.6 us\nlink b - s nvlink x1 20 GB/s 0.6 us\n"
      "link a - cpu0 c2c x4 300 GB/s 0.6 us\nlink cpu0 - cpu1 socket x1 77 GB/s 0.2 us\n"
      "link adapter - cpu0 pci x16 12 GB/s 0.4 us\nlink mlx5_0 - adapter pci x16 12 GB/s 0.4 us\n"
      "link mlx5_0 - net network x1 25 GB/s 1.5 us\n");
  const Result<Writing> writing = write_hwloc(topology);
  ASSERT_TRUE(writing.ok()) << writing.status().message();
  EXPECT_THAT(
      writing->remarks,
      testing::ElementsAre("0 of 1 vertices of the kind pci are told", "0 of 1 vertices of the kind network are told",
                           "pci links carry 72 GB/s together, not 96", "network links carry 0 GB/s together, not 50"));
  EXPECT_THAT(writing->text, HasSubstr("<object type=\"OSDev\" name=\"mlx5_0\" osdev_type=\"3\""));
  const Topology again = known(writing->text);
  EXPECT_EQ(again.vertex(*again.find("gpu1")).model, "gfx942");
}

TEST(WriteHwloc, WhatItCannotHoldIsRefused) {
  EXPECT_EQ(write_hwloc(known("hocket topology 1\ngpu a\nhost 1\ngpu b\n")).status().message(),
            "hwloc's XML: there are several hosts");
  EXPECT_EQ(write_hwloc(known("hocket topology 1\ncpu cpu4096\n")).status().message(),
            "hwloc's XML: NUMA node 4096: numbers are below 4096");
  std::string complexes = "hocket topology 1\ncpu cpu0\n";
  for (int i = 0; i <= 4096; ++i) complexes += "complex c" + std::to_string(i) + "\n";
  EXPECT_EQ(write_hwloc(known(complexes)).status().message(), "hwloc's XML: 4097 core complexes, more than 4096");
}

TEST(WriteGraphs, RingsAndChainsComeBack) {
  Rings rings;
  rings.orders = {{0, 2, 1}, {1, 2, 0}};
  rings.ring_gb_per_s = 12.5;
  Trees trees;
  trees.parents = {{1, 1, 0}, {0, 0, 0}};  // 1, 0, 2, and a star
  trees.tree_gb_per_s = 25;
  const std::vector<NcclGraph> graphs = nccl_graphs(rings, trees);
  ASSERT_EQ(graphs.size(), 2U);
  EXPECT_EQ(graphs[0], (NcclGraph{kNcclRing, 12.5, rings.orders, true}));
  EXPECT_EQ(graphs[1], (NcclGraph{kNcclTree, 25, {{1, 0, 2}}, true}));
  const auto again = read_nccl_graphs(write_nccl_graphs(graphs));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, graphs);
  EXPECT_THAT(write_nccl_graphs(graphs), HasSubstr("<graph id=\"1\" pattern=\"1\" crossnic=\"0\" nchannels=\"1\""));
}

TEST(WriteGraphs, NcclReadsGpusAsHexadecimal) {
  NcclGraph graph{kNcclRing, 12.5, {{}}};
  for (int32_t gpu = 0; gpu < 17; ++gpu) graph.channels[0].push_back(gpu);
  const std::string written = write_nccl_graphs(std::vector{graph});
  EXPECT_THAT(written, HasSubstr("<gpu dev=\"0x9\"/>\n      <gpu dev=\"0xa\"/>"));
  EXPECT_THAT(written, HasSubstr("typeintra=\"SYS\" typeinter=\"PIX\""));
  EXPECT_EQ(*read_nccl_graphs(written), std::vector{graph});
  graph.over_nvlinks = true;
  EXPECT_THAT(write_nccl_graphs(std::vector{graph}), HasSubstr("typeintra=\"NVL\" typeinter=\"PIX\""));
  const auto plain = read_nccl_graphs(
      "<graphs><graph pattern=\"4\" speedintra=\"1\"><channel><gpu dev=\"9\"/></channel></graph></graphs>");
  EXPECT_EQ(plain->at(0).channels[0][0], 9);
}

class Published : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(SHARED_TOPOLOGIES)) GTEST_SKIP() << "there is no " << SHARED_TOPOLOGIES;
  }
  // All but graphs, by folder and name.
  static std::map<std::string, Topology> all() {
    std::map<std::string, Topology> topologies;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(SHARED_TOPOLOGIES)) {
      const path file = entry.path();
      const std::string folder = file.parent_path().filename();
      if (file.extension() != ".xml" && file.extension() != ".yml" && folder != "smi") continue;
      if (file.filename().string().find("graph") != std::string::npos) continue;
      topologies[folder + "/" + file.filename().string()] = known(contents(file));
    }
    EXPECT_GE(topologies.size(), 47U);
    return topologies;
  }
  static void expect_the_same_rings(const Topology& one, const Topology& other, const std::string& file) {
    const Rings rings = find_rings(one);
    const Rings others = find_rings(other);
    EXPECT_NEAR(rings.gb_per_s(), others.gb_per_s(), 1e-6 * rings.gb_per_s()) << file;
    EXPECT_NEAR(rings.bound_gb_per_s, others.bound_gb_per_s, 1e-6 * rings.bound_gb_per_s) << file;
  }
  // Some rank is worse or better off.
  static bool is_worth_telling(const std::vector<std::string>& remarks) {
    return std::ranges::any_of(remarks, [](const std::string& remark) {
      return remark.find("pairs of seats") != std::string::npos || remark.find("schedules") != std::string::npos;
    });
  }
  static bool is_of(const std::string& file, std::initializer_list<std::string_view> folders) {
    return std::ranges::any_of(folders, [&](std::string_view folder) { return file.starts_with(folder); });
  }
};

TEST_F(Published, MachinesComeBackFromNcclsForm) {
  int same = 0;
  int rings = 0;
  for (const auto& [file, topology] : all()) {
    const Result<Writing> writing = write_nccl(topology);
    if (topology.all(Vertex::Kind::kGpu).empty()) {
      EXPECT_FALSE(writing.ok()) << file;
      continue;
    }
    ASSERT_TRUE(writing.ok()) << file << ": " << writing.status().message();
    const Topology again = known(writing->text);
    // One has a place twice, which NCCL could not tell apart.
    if (is_of(file, {"rccl", "oci", "azhpc", "aws"}) && !file.ends_with("topo_8p1h_1.xml")) {
      EXPECT_EQ(again, topology) << file;
      EXPECT_THAT(writing->remarks, testing::IsEmpty()) << file;
      ++same;
    } else {
      expect_the_same_rings(topology, again, file);
      ++rings;
    }
  }
  EXPECT_GE(same, 35);
  EXPECT_GE(rings, 7);
}

// A matrix knows no rates, no other makers' links, and one host. Where ranks are worse or better off by that, it is
// told.
TEST_F(Published, MachinesComeBackFromMatricesOrAreToldToBeOthers) {
  int same = 0;
  int told = 0;
  for (const auto& [file, topology] : all()) {
    const Result<Writing> writing = write_smi(topology);
    if (!writing.ok()) {
      EXPECT_TRUE(is_of(file, {"hwloc", "oci-hpc/GB300"})) << file << ": " << writing.status().message();
      continue;
    }
    const bool differs = is_worth_telling(writing->remarks);
    ++(differs ? told : same);
    if (!differs) expect_the_same_rings(topology, known(writing->text), file);
    if (!is_of(file, {"smi"})) continue;
    EXPECT_EQ(known(writing->text), topology) << file;
    EXPECT_THAT(writing->remarks, testing::IsEmpty()) << file;
  }
  EXPECT_GE(same, 6);
  EXPECT_GE(told, 30);
}

// What hwloc has told, it can hold. Of others it loses networks, and where ranks are worse or better off by that, it is
// told.
TEST_F(Published, MachinesComeBackFromHwlocsFormOrAreToldToBeOthers) {
  int equal = 0;
  int same = 0;
  int told = 0;
  for (const auto& [file, topology] : all()) {
    const Result<Writing> writing = write_hwloc(topology);
    if (!writing.ok()) {
      EXPECT_TRUE(is_of(file, {"oci-hpc/GB300"})) << file << ": " << writing.status().message();
      continue;
    }
    const Topology again = known(writing->text);
    const bool differs = is_worth_telling(writing->remarks);
    ++(again == topology ? equal : differs ? told : same);
    if (!differs) expect_the_same_rings(topology, again, file);
    if (!is_of(file, {"hwloc"})) continue;
    EXPECT_EQ(again, topology) << file;
    EXPECT_THAT(writing->remarks, testing::IsEmpty()) << file;
  }
  std::printf("hwloc's form: %d come back equal, %d with equal rings and bound, %d are told to differ\n", equal, same,
              told);
  EXPECT_GE(equal, 8);
  EXPECT_GE(equal + same, 44);
}

TEST_F(Published, GraphsComeBack) {
  const auto graphs = read_nccl_graphs(contents(path(SHARED_TOPOLOGIES) / "azhpc-images/ncv4-graph.xml"));
  ASSERT_TRUE(graphs.ok());
  const auto again = read_nccl_graphs(write_nccl_graphs(*graphs));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, *graphs);
}

}  // namespace
}  // namespace hocket::topology
