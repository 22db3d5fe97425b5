// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The machine as far as this process may use it: hardware threads, cores, caches, NUMA nodes, memory, and the limits
// that control groups set. Immutable once found. Knows no ranks, plans or transports.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hocket {

// Hardware threads by the operating system's numbers, ascending.
using CpuList = std::vector<int>;

struct Cache {
  int level = 1;  // data and unified caches only
  size_t bytes = 0;
  CpuList cpus;  // ours that share it
};

struct NumaNode {
  int number = 0;
  size_t bytes = 0;
  CpuList cpus;  // ours that are near it; nodes without any are listed too
};

struct Machine {
  std::string processor;        // the model's name; empty when the system does not tell
  CpuList cpus;                 // that the process may run on
  std::vector<CpuList> cores;   // the same, by physical core
  size_t all_cpus = 0;          // also those that this process is not bound to, as launchers bind ranks,
  size_t all_cores = 0;         // and their physical cores
  double cpu_limit = 0;         // processor seconds per second that control groups allow; 0: as many as there are
  std::vector<Cache> caches;    // by level, then by first cpu
  std::vector<NumaNode> nodes;  // by number
  size_t memory_bytes = 0;      // of the machine, or what control groups allow if that is less
  std::string found_by;         // "hwloc 2.9.0" or "sysfs"

  // How many threads can make progress at the same time: at least one.
  int usable_cpus() const;
  // The size of the cache of that level that this cpu uses; 0: none known.
  size_t cache_bytes(int level, int cpu) const;
};

// Looks at the first call; the main thread's affinity at that moment counts.
const Machine& machine();

// A few lines for people, each ending in a line feed.
std::string describe(const Machine& machine);

// "0-3,8".
std::string to_text(const CpuList& cpus);

}  // namespace hocket
