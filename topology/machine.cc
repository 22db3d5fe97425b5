// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors

#include "topology/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "topology/discover.h"

namespace hocket {
namespace {

std::string size_text(size_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, kUnits[unit]);
}

// "32 KiB each: 0 | 1", or for several sizes one such part after the other.
std::string caches_text(const Machine& machine, int level) {
  std::string text;
  size_t bytes = 0;
  for (const Cache& cache : machine.caches) {
    if (cache.level != level) continue;
    text += cache.bytes == bytes ? " | " : fmt::format("{}{}: ", text.empty() ? "" : ", ", size_text(cache.bytes));
    text += to_text(cache.cpus);
    bytes = cache.bytes;
  }
  return text;
}

}  // namespace

int Machine::usable_cpus() const {
  const int count = std::max(1, static_cast<int>(cpus.size()));
  return cpu_limit > 0 ? std::min(count, std::max(1, static_cast<int>(std::lround(cpu_limit)))) : count;
}

size_t Machine::cache_bytes(int level, int cpu) const {
  for (const Cache& cache : caches) {
    if (cache.level == level && std::binary_search(cache.cpus.begin(), cache.cpus.end(), cpu)) return cache.bytes;
  }
  return 0;
}

const Machine& machine() {
  static const Machine found = [] {
    const CpuList allowed = topology::allowed_cpus();
    Machine result = topology::discover_hwloc(allowed).value_or(Machine());
    if (result.cpus.empty()) result = topology::discover_sysfs(allowed);
    topology::add_system_facts(result);
    return result;
  }();
  return found;
}

std::string to_text(const CpuList& cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end - i == 1 ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[end - 1]);
    i = end;
  }
  return text;
}

std::string describe(const Machine& machine) {
  std::string text =
      fmt::format("processor  {}, cpus {} on {} cores", machine.processor.empty() ? "?" : machine.processor,
                  to_text(machine.cpus), machine.cores.size());
  if (machine.cpu_limit > 0) text += fmt::format(", limited to {:.4g} cpus", machine.cpu_limit);
  text += '\n';
  for (int level = 1; level <= 4; ++level) {
    const std::string caches = caches_text(machine, level);
    if (!caches.empty()) text += fmt::format("L{} cache   {}\n", level, caches);
  }
  text += fmt::format("memory     {}", size_text(machine.memory_bytes));
  for (const NumaNode& node : machine.nodes) {
    text += fmt::format(", node {} {} (cpus {})", node.number, size_text(node.bytes), to_text(node.cpus));
  }
  return text + fmt::format("\nfound by   {}\n", machine.found_by);
}

}  // namespace hocket
