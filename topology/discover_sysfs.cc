// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Discovery from the kernel's own files.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "topology/discover.h"

namespace hocket::topology {
namespace {

constexpr int kMostCachesOfOneCpu = 16;

// "32K", "1024K", "2M"; what has no unit is bytes.
size_t parse_size(std::string_view text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  const char unit = end < text.data() + text.size() ? *end : ' ';
  return value << (unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0);
}

size_t parse_count(std::string_view text) { return parse_size(text.substr(0, text.find('\n'))); }

// What `cpu` shares with others is found again at each of them; the first one tells.
bool is_first(const CpuList& group, int cpu) { return group.empty() || group.front() == cpu; }

std::string folder_of(const std::string& root, int cpu) {
  return fmt::format("{}/sys/devices/system/cpu/cpu{}/", root, cpu);
}

std::vector<CpuList> cores_of(const CpuList& cpus, const std::string& root) {
  std::vector<CpuList> cores;
  for (int cpu : cpus) {
    const std::string folder = folder_of(root, cpu);
    std::string siblings = read_file(folder + "topology/core_cpus_list");
    if (siblings.empty()) siblings = read_file(folder + "topology/thread_siblings_list");
    CpuList core = common(parse_cpus(siblings), cpus);
    if (core.empty()) core = {cpu};
    if (is_first(core, cpu)) cores.push_back(std::move(core));
  }
  return cores;
}

void add_caches(Machine& machine, const std::string& folder, int cpu) {
  for (int index = 0; index < kMostCachesOfOneCpu; ++index) {
    const std::string cache_folder = fmt::format("{}cache/index{}/", folder, index);
    const std::string type = read_file(cache_folder + "type");
    if (type.empty()) return;
    if (type.starts_with("Instruction")) continue;
    Cache cache;
    cache.level = static_cast<int>(parse_count(read_file(cache_folder + "level")));
    cache.bytes = parse_size(read_file(cache_folder + "size"));
    cache.cpus = common(parse_cpus(read_file(cache_folder + "shared_cpu_list")), machine.cpus);
    if (cache.cpus.empty()) cache.cpus = {cpu};
    if (is_first(cache.cpus, cpu)) machine.caches.push_back(std::move(cache));
  }
}

void add_nodes(Machine& machine, const std::string& root) {
  const std::string folder = root + "/sys/devices/system/node/";
  for (int number : parse_cpus(read_file(folder + "online"))) {
    NumaNode node;
    node.number = number;
    node.cpus = common(parse_cpus(read_file(fmt::format("{}node{}/cpulist", folder, number))), machine.cpus);
    const std::string facts = read_file(fmt::format("{}node{}/meminfo", folder, number));
    const size_t at = facts.find("MemTotal:");
    if (at != std::string::npos) {
      const size_t digits = facts.find_first_not_of(' ', at + 9);
      if (digits != std::string::npos) node.bytes = parse_size(std::string_view(facts).substr(digits)) << 10;
    }
    machine.nodes.push_back(std::move(node));
  }
}

}  // namespace

Machine discover_sysfs(const CpuList& allowed, const std::string& root) {
  Machine machine;
  machine.found_by = "sysfs";
  const CpuList online = parse_cpus(read_file(root + "/sys/devices/system/cpu/online"));
  const CpuList& all = online.empty() ? allowed : online;
  const std::vector<CpuList> cores = cores_of(all, root);
  machine.cpus = common(allowed, all);
  machine.all_cpus = all.size();
  machine.all_cores = cores.size();
  for (const CpuList& core : cores) {
    CpuList ours = common(core, machine.cpus);
    if (!ours.empty()) machine.cores.push_back(std::move(ours));
  }
  std::sort(machine.cores.begin(), machine.cores.end());
  for (int cpu : machine.cpus) add_caches(machine, folder_of(root, cpu), cpu);
  add_nodes(machine, root);
  sort_caches(machine);
  return machine;
}

}  // namespace hocket::topology
