// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The machine at hand, found in both ways, and invented machines: two sockets with hyperthreads, control groups of both
// versions, files that are missing or nonsense.

#include "topology/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "topology/discover.h"

namespace hocket {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using topology::discover_sysfs;

// A tree of files that vanishes with the test.
class FakeRoot : public testing::Test {
 protected:
  FakeRoot() {
    std::string pattern = testing::TempDir() + "hocket-machine-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~FakeRoot() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }

  void write_cache(int cpu, int index, int level, const std::string& type, const std::string& size,
                   const std::string& cpus) const {
    const std::string folder =
        "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index) + "/";
    write(folder + "level", std::to_string(level));
    write(folder + "type", type);
    write(folder + "size", size);
    write(folder + "shared_cpu_list", cpus);
  }

  // Four cores in two sockets; cpu n + 4 is the other thread of cpu n's core.
  void write_two_sockets() const {
    write("/sys/devices/system/cpu/online", "0-7");
    for (int cpu = 0; cpu < 8; ++cpu) {
      const int core = cpu % 4;
      const std::string threads = std::to_string(core) + "," + std::to_string(core + 4);
      const std::string socket = core < 2 ? "0-1,4-5" : "2-3,6-7";
      write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/core_cpus_list", threads);
      write_cache(cpu, 0, 1, "Data", "48K", threads);
      write_cache(cpu, 1, 1, "Instruction", "32K", threads);
      write_cache(cpu, 2, 2, "Unified", "2M", threads);
      write_cache(cpu, 3, 3, "Unified", "36864K", socket);
    }
    write("/sys/devices/system/node/online", "0-1");
    write("/sys/devices/system/node/node0/cpulist", "0-1,4-5");
    write("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1048576 kB");
    write("/sys/devices/system/node/node1/cpulist", "2-3,6-7");
    write("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       2097152 kB");
    write("/proc/meminfo", "MemTotal:        3145728 kB\nMemFree: 1 kB");
    write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Fantasy 9000 @ 3 GHz\nflags\t: fpu");
  }

  std::string root_;
};

TEST_F(FakeRoot, TwoSockets) {
  write_two_sockets();
  Machine machine = discover_sysfs({0, 1, 2, 3, 4, 5, 6, 7}, root_);
  topology::add_system_facts(machine, root_);
  EXPECT_EQ(machine.processor, "Fantasy 9000 @ 3 GHz");
  EXPECT_EQ(to_text(machine.cpus), "0-7");
  EXPECT_THAT(machine.cores, ElementsAre(CpuList{0, 4}, CpuList{1, 5}, CpuList{2, 6}, CpuList{3, 7}));
  ASSERT_EQ(machine.caches.size(), 10u);
  EXPECT_EQ(machine.cache_bytes(1, 6), 48u << 10);
  EXPECT_EQ(machine.cache_bytes(2, 0), 2u << 20);
  EXPECT_EQ(machine.cache_bytes(3, 7), 36u << 20);
  EXPECT_EQ(machine.cache_bytes(4, 7), 0u);
  EXPECT_EQ(machine.caches.back().cpus, (CpuList{2, 3, 6, 7}));
  ASSERT_EQ(machine.nodes.size(), 2u);
  EXPECT_EQ(machine.nodes[1].bytes, size_t{2} << 30);
  EXPECT_EQ(machine.nodes[1].cpus, (CpuList{2, 3, 6, 7}));
  EXPECT_EQ(machine.memory_bytes, size_t{3} << 30);
  EXPECT_EQ(machine.usable_cpus(), 8);
  EXPECT_EQ(describe(machine),
            "processor  Fantasy 9000 @ 3 GHz, cpus 0-7 on 4 cores\n"
            "L1 cache   48 KiB: 0,4 | 1,5 | 2,6 | 3,7\n"
            "L2 cache   2 MiB: 0,4 | 1,5 | 2,6 | 3,7\n"
            "L3 cache   36 MiB: 0-1,4-5 | 2-3,6-7\n"
            "memory     3 GiB, node 0 1 GiB (cpus 0-1,4-5), node 1 2 GiB (cpus 2-3,6-7)\n"
            "found by   sysfs\n");
}

TEST_F(FakeRoot, AffinityHidesWhatWeMayNotUse) {
  write_two_sockets();
  const Machine machine = discover_sysfs({5, 6}, root_);
  EXPECT_EQ(machine.cpus, (CpuList{5, 6}));
  EXPECT_THAT(machine.cores, ElementsAre(CpuList{5}, CpuList{6}));
  EXPECT_EQ(machine.caches.size(), 6u);
  EXPECT_EQ(machine.nodes[0].cpus, CpuList{5});
  EXPECT_EQ(machine.all_cpus, 8u);
  EXPECT_EQ(machine.all_cores, 4u);
}

TEST_F(FakeRoot, ControlGroupsOfVersionTwoLimitFromAnyLevel) {
  write_two_sockets();
  write("/proc/self/cgroup", "0::/pod/rank");
  write("/sys/fs/cgroup/pod/cpu.max", "250000 100000");
  write("/sys/fs/cgroup/pod/rank/cpu.max", "max 100000");
  write("/sys/fs/cgroup/pod/rank/memory.max", "1073741824");
  Machine machine = discover_sysfs({0, 1, 2, 3}, root_);
  topology::add_system_facts(machine, root_);
  EXPECT_DOUBLE_EQ(machine.cpu_limit, 2.5);
  EXPECT_EQ(machine.usable_cpus(), 3);
  EXPECT_EQ(machine.memory_bytes, size_t{1} << 30);
  EXPECT_THAT(describe(machine), HasSubstr("limited to 2.5 cpus"));
}

TEST_F(FakeRoot, ControlGroupsOfVersionOne) {
  write_two_sockets();
  write("/proc/self/cgroup", "4:memory:/m\n2:cpu,cpuacct:/c\n0::/");
  write("/sys/fs/cgroup/cpu/c/cpu.cfs_quota_us", "50000");
  write("/sys/fs/cgroup/cpu/c/cpu.cfs_period_us", "100000");
  write("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712");
  Machine machine = discover_sysfs({0, 1, 2, 3}, root_);
  topology::add_system_facts(machine, root_);
  EXPECT_DOUBLE_EQ(machine.cpu_limit, 0.5);
  EXPECT_EQ(machine.usable_cpus(), 1);
  EXPECT_EQ(machine.memory_bytes, size_t{3} << 30);
}

TEST_F(FakeRoot, NoLimitAndLimitAboveTheMachine) {
  write_two_sockets();
  write("/proc/self/cgroup", "2:cpu:/\n0::/");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  write("/sys/fs/cgroup/cpu.max", "6400000 100000");
  Machine machine = discover_sysfs({0, 1}, root_);
  topology::add_system_facts(machine, root_);
  EXPECT_EQ(machine.cpu_limit, 0);
  EXPECT_EQ(machine.usable_cpus(), 2);
}

TEST_F(FakeRoot, NothingToReadLeavesCpus) {
  Machine machine = discover_sysfs({3, 9}, root_);
  topology::add_system_facts(machine, root_);
  EXPECT_EQ(machine.cpus, (CpuList{3, 9}));
  EXPECT_THAT(machine.cores, ElementsAre(CpuList{3}, CpuList{9}));
  EXPECT_TRUE(machine.caches.empty());
  EXPECT_EQ(machine.usable_cpus(), 2);
  EXPECT_THAT(describe(machine), HasSubstr("processor  ?"));
}

TEST(Lists, ParseAndPrint) {
  EXPECT_EQ(topology::parse_cpus("0-2,5,7-8\n"), (CpuList{0, 1, 2, 5, 7, 8}));
  EXPECT_EQ(topology::parse_cpus(""), CpuList{});
  EXPECT_EQ(topology::parse_cpus("x"), CpuList{});
  EXPECT_EQ(topology::parse_cpus("3-1"), CpuList{});
  EXPECT_EQ(topology::parse_cpus("1,-4"), CpuList{1});
  EXPECT_EQ(topology::parse_cpus("4,0-4000000000"), CpuList{4});
  EXPECT_EQ(to_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(to_text({}), "");
}

TEST(ThisMachine, IsFoundAlikeInBothWays) {
  const CpuList allowed = topology::allowed_cpus();
  ASSERT_FALSE(allowed.empty());
  const Machine by_sysfs = discover_sysfs(allowed);
  EXPECT_EQ(by_sysfs.cpus, allowed);
  const auto by_hwloc = topology::discover_hwloc(allowed);
  if (!by_hwloc) GTEST_SKIP() << "built without hwloc";
  EXPECT_EQ(by_hwloc->cpus, by_sysfs.cpus);
  EXPECT_EQ(by_hwloc->cores.size(), by_sysfs.cores.size());
  EXPECT_EQ(by_hwloc->all_cpus, by_sysfs.all_cpus);
  EXPECT_EQ(by_hwloc->all_cores, by_sysfs.all_cores);
  for (int level = 1; level <= 3; ++level) {
    EXPECT_EQ(by_hwloc->cache_bytes(level, allowed[0]), by_sysfs.cache_bytes(level, allowed[0])) << "level " << level;
  }
  EXPECT_EQ(by_hwloc->nodes.size(), by_sysfs.nodes.size());
}

TEST(ThisMachine, IsLookedAtOnceAndQuickly) {
  const std::clock_t start = std::clock();
  const Machine& first = machine();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;  // of this process alone
  EXPECT_EQ(&first, &machine());
  std::printf("%sin %.2f ms\n", describe(first).c_str(), 1e3 * seconds);
  EXPECT_LT(seconds, 1);
  EXPECT_GT(first.memory_bytes, 0u);
  EXPECT_GE(first.usable_cpus(), 1);
}

// In a process of its own: affinity stays with the thread.
TEST(ThisMachine, ObeysAffinity) {
  const CpuList before = topology::allowed_cpus();
  const pid_t child = fork();
  if (child == 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(before.back()), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) _exit(2);
    _exit(topology::allowed_cpus() == CpuList{before.back()} ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace hocket
