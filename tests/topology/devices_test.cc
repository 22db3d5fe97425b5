// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A host as a topology: an invented one with GPUs, RDMA and nonsense in its files, and this one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "topology/discover_devices.h"
#include "topology/text.h"

namespace hocket::topology {
namespace {

class Devices : public testing::Test {
 protected:
  Devices() {
    std::string pattern = testing::TempDir() + "hocket-devices-XXXXXX";
    root_ = mkdtemp(pattern.data());
    machine_.nodes = {{0, 1, {0, 1}}, {1, 1, {2, 3}}};
    machine_.caches = {{3, 1024, {0, 1}}, {3, 1024, {2, 3}}};
  }
  ~Devices() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + "/sys/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }

  Machine machine_;
  std::string root_;
};

TEST_F(Devices, GpusAndPortsHangWhereTheyAre) {
  const std::string gpu = "bus/pci/devices/0000:41:00.0/";
  write(gpu + "class", "0x030200");
  write(gpu + "vendor", "0x10de");
  write(gpu + "device", "0x2330");
  write(gpu + "numa_node", "1");
  write(gpu + "current_link_speed", "32.0 GT/s PCIe");
  write(gpu + "current_link_width", "16");
  write("bus/pci/devices/0000:02:00.0/class", "0x030000");  // a screen's
  write("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  write("class/infiniband/mlx5_0/device/numa_node", "1");
  const std::string roce = "class/infiniband/mlx5_0/ports/1/";
  write(roce + "link_layer", "Ethernet");
  write(roce + "gids/0", "fe80:0000:0000:0000:0202:c9ff:fe00:0001");
  write(roce + "gids/1", "0000:0000:0000:0000:0000:ffff:0a01:0203");
  write(roce + "gids/2", "0000:0000:0000:0000:0000:ffff:0a01:0203");
  write(roce + "gids/3", "0000:0000:0000:0000:0000:0000:0000:0000");
  write(roce + "gid_attrs/types/0", "RoCE v2");
  write(roce + "gid_attrs/types/1", "IB/RoCE v1");
  write(roce + "gid_attrs/types/2", "RoCE v2");
  const std::string infiniband = "class/infiniband/mlx5_1/ports/1/";
  write(infiniband + "rate", "100 Gb/sec (4X EDR)");
  write(infiniband + "link_layer", "InfiniBand");
  write(infiniband + "gids/0", "fe80:0000:0000:0000:0202:c9ff:fe00:0001");
  write(infiniband + "gid_attrs/types/0", "IB/RoCE v1");
  write("class/net/eth0/speed", "25000");
  write("class/net/eth0/device/numa_node", "-1");
  write("class/net/eth1/speed", "-1");
  write("class/net/eth1/device/numa_node", "what");
  write("class/net/br0/speed", "10000");
  const Result<Topology> topology = discover(machine_, root_);
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(to_text(*topology),
            "hocket topology 1\n"
            "cpu cpu0\ncpu cpu1\ncomplex complex0\ncomplex complex1\ngpu gpu0 0x10de:0x2330 @0000:41:00.0\nnic mlx5_0 "
            "RoCE-v2:10.1.2.3\n"
            "network network\nnic mlx5_1 InfiniBand:fe80::202:c9ff:fe00:1\nnic eth0\nnic eth1\n"
            "link cpu0 - cpu1 socket x1 16 GB/s 0.2 us\n"
            "link complex0 - cpu0 cache x1 32 GB/s 0.1 us\n"
            "link complex1 - cpu1 cache x1 32 GB/s 0.1 us\n"
            "link gpu0 - cpu1 pci x1 63.01538461538462 GB/s 0.4 us\n"
            "link mlx5_0 - cpu1 pci x1 12 GB/s 0.4 us\n"
            "link mlx5_0 - network network x1 50 GB/s 1.5 us\n"
            "link mlx5_1 - cpu0 pci x1 12 GB/s 0.4 us\n"
            "link mlx5_1 - network network x1 12.5 GB/s 1.5 us\n"
            "link eth0 - cpu0 pci x1 12 GB/s 0.4 us\n"
            "link eth0 - network network x1 3.125 GB/s 1.5 us\n"
            "link eth1 - cpu0 pci x1 12 GB/s 0.4 us\n"
            "link eth1 - network network x1 1.25 GB/s 1.5 us\n");
}

TEST_F(Devices, AHostThatTellsNothingHasOneNode) {
  const Result<Topology> topology = discover({}, root_);
  ASSERT_TRUE(topology.ok());
  EXPECT_EQ(topology->seats().size(), 1U);
}

// The aim is 50 ms on the machine that we have; one of hundreds of processors and devices may take a few times as long.
TEST(DevicesHere, AreFoundFast) {
  const Machine& here = machine();
  double best_ms = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    const Result<Topology> topology = discover(here);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(topology.ok()) << topology.status().message();
    EXPECT_FALSE(topology->seats().empty());
    best_ms = std::min(best_ms, took.count());
  }
  std::printf("found in %.1f ms\n", best_ms);
  EXPECT_LT(best_ms, 250);
}

}  // namespace
}  // namespace hocket::topology
