// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Discovery with hwloc, which knows processors and kernels whose own files are wrong.

#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "topology/discover.h"

namespace hocket::topology {
namespace {

using Topology = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;

// Only what Machine holds: looking for devices, distances and kinds of cores would take most of the time.
Topology load() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {nullptr, hwloc_topology_destroy};
  Topology topology(raw, hwloc_topology_destroy);
  // The part that asks each processor itself moves this thread to all of them, and waits wherever another one runs.
  hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  for (hwloc_obj_type_t type :
       {HWLOC_OBJ_CORE, HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE}) {
    hwloc_topology_set_type_filter(raw, type, HWLOC_TYPE_FILTER_KEEP_ALL);
  }
  unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;  // they are of the machine, though not ours
#if HWLOC_API_VERSION >= 0x00020800
  flags |= HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
  hwloc_topology_set_flags(raw, flags);
  if (hwloc_topology_load(raw) != 0) return {nullptr, hwloc_topology_destroy};
  return topology;
}

CpuList cpus_of(hwloc_const_bitmap_t set, const CpuList& allowed) {
  CpuList cpus;
  for (int cpu : allowed) {
    if (hwloc_bitmap_isset(set, static_cast<unsigned>(cpu))) cpus.push_back(cpu);
  }
  return cpus;
}

template <typename Visit>
void visit_all(hwloc_topology_t topology, hwloc_obj_type_t type, Visit visit) {
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    visit(*object);
  }
}

size_t count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  size_t count = 0;
  visit_all(topology, type, [&](const hwloc_obj&) { ++count; });
  return count;
}

void add_caches(Machine& machine, hwloc_topology_t topology) {
  int level = 0;
  for (hwloc_obj_type_t type : {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE}) {
    ++level;
    visit_all(topology, type, [&](const hwloc_obj& object) {
      CpuList cpus = cpus_of(object.cpuset, machine.cpus);
      if (!cpus.empty()) machine.caches.push_back({level, object.attr->cache.size, std::move(cpus)});
    });
  }
  sort_caches(machine);
}

}  // namespace

std::optional<Machine> discover_hwloc(const CpuList& allowed) {
  const Topology topology = load();
  if (!topology) return std::nullopt;
  Machine machine;
  machine.found_by = "hwloc " HWLOC_VERSION;
  machine.cpus = cpus_of(hwloc_topology_get_allowed_cpuset(topology.get()), allowed);
  visit_all(topology.get(), HWLOC_OBJ_CORE, [&](const hwloc_obj& object) {
    CpuList cpus = cpus_of(object.cpuset, machine.cpus);
    if (!cpus.empty()) machine.cores.push_back(std::move(cpus));
  });
  std::sort(machine.cores.begin(), machine.cores.end());
  if (machine.cores.empty()) {
    for (int cpu : machine.cpus) machine.cores.push_back({cpu});
  }
  machine.all_cpus = count_of(topology.get(), HWLOC_OBJ_PU);
  machine.all_cores = count_of(topology.get(), HWLOC_OBJ_CORE);
  if (machine.all_cores == 0) machine.all_cores = machine.all_cpus;
  add_caches(machine, topology.get());
  visit_all(topology.get(), HWLOC_OBJ_NUMANODE, [&](const hwloc_obj& object) {
    machine.nodes.push_back(
        {static_cast<int>(object.os_index), object.attr->numanode.local_memory, cpus_of(object.cpuset, machine.cpus)});
  });
  return machine;
}

}  // namespace hocket::topology
