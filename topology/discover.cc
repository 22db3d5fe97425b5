// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What both ways of discovery share: affinity, processor name, memory, control groups.

#include "topology/discover.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>
#include <memory>

namespace hocket::topology {
namespace {

constexpr int kMostCpus = 1 << 16;

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// The rest of the line after the first occurrence of `key`, without leading blanks and colon.
std::string_view after(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view line = text.substr(at + key.size());
  line = line.substr(0, line.find('\n'));
  const size_t start = line.find_first_not_of(" \t:");
  return start == std::string_view::npos ? std::string_view() : line.substr(start);
}

double least(double limit, double other) { return limit == 0 ? other : std::min(limit, other); }

// The process' group in one hierarchy, and every group above it that this process can see: `visit` gets each folder.
template <typename Visit>
void visit_groups(const std::string& hierarchy, std::string path, Visit visit) {
  while (true) {
    visit(hierarchy + path + "/");
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

struct Limits {
  double cpus = 0;  // 0: none
  double bytes = 0;

  // "150000 100000", "max 100000".
  void add_cpu_max(std::string_view text) {
    const auto quota = parse_number(text);
    const size_t blank = text.find(' ');
    const auto period = blank == std::string_view::npos ? std::nullopt : parse_number(text.substr(blank + 1));
    if (quota && period && *quota > 0 && *period > 0) cpus = least(cpus, *quota / *period);
  }
  void add_memory_max(std::string_view text) {
    const auto limit = parse_number(text);
    if (limit && *limit > 0) bytes = least(bytes, *limit);
  }
};

Limits group_limits(const std::string& root) {
  Limits limits;
  const std::string base = root + "/sys/fs/cgroup";
  const std::string groups = read_file(root + "/proc/self/cgroup");
  // Lines of the form "hierarchy:controllers:path".
  for (size_t at = 0; at < groups.size();) {
    const std::string line = groups.substr(at, groups.find('\n', at) - at);
    at += line.size() + 1;
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1) == "/" ? "" : line.substr(second + 1);
    if (controllers == ",,") {
      visit_groups(base, path, [&](const std::string& folder) {
        limits.add_cpu_max(read_file(folder + "cpu.max"));
        limits.add_memory_max(read_file(folder + "memory.max"));
      });
    } else if (controllers.find(",cpu,") != std::string::npos) {
      visit_groups(base + "/cpu", path, [&](const std::string& folder) {
        const std::string quota = read_file(folder + "cpu.cfs_quota_us");
        limits.add_cpu_max(quota.substr(0, quota.find('\n')) + " " + read_file(folder + "cpu.cfs_period_us"));
      });
    } else if (controllers.find(",memory,") != std::string::npos) {
      visit_groups(base + "/memory", path, [&](const std::string& folder) {
        limits.add_memory_max(read_file(folder + "memory.limit_in_bytes"));
      });
    }
  }
  return limits;
}

}  // namespace

CpuList allowed_cpus() {
  CpuList cpus;
  // The kernel refuses a set smaller than its own.
  for (int size = 1024; size <= kMostCpus; size *= 4) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(static_cast<size_t>(size)),
                                                               [](cpu_set_t* memory) { CPU_FREE(memory); });
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(size));
    if (sched_getaffinity(getpid(), bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    for (int cpu = 0; cpu < size; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
    }
    break;
  }
  return cpus;
}

void add_system_facts(Machine& machine, const std::string& root) {
  // Only the first of the processors: the kernel needs time for each.
  machine.processor = after(read_file(root + "/proc/cpuinfo", 2048), "model name");
  const auto kibibytes = parse_number(after(read_file(root + "/proc/meminfo"), "MemTotal:"));
  const Limits limits = group_limits(root);
  machine.cpu_limit = limits.cpus < static_cast<double>(machine.cpus.size()) ? limits.cpus : 0;
  const double bytes = kibibytes.value_or(0) * 1024;
  machine.memory_bytes = static_cast<size_t>(limits.bytes > 0 ? least(bytes, limits.bytes) : bytes);
}

std::string read_file(const std::string& path, size_t limit) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string text(limit, '\0');
  size_t filled = 0;
  while (filled < limit) {
    const ssize_t got = read(file, text.data() + filled, limit - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  close(file);
  text.resize(filled);
  return text;
}

CpuList parse_cpus(std::string_view text) {
  CpuList cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    auto [next, error] = std::from_chars(at, end, first);
    if (error != std::errc()) break;
    int last = first;
    if (next < end && *next == '-') {
      const auto range = std::from_chars(next + 1, end, last);
      if (range.ec != std::errc()) break;
      next = range.ptr;
    }
    if (first < 0 || last >= kMostCpus) break;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (next == end || *next != ',') break;
    at = next + 1;
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

CpuList common(const CpuList& a, const CpuList& b) {
  CpuList both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

void sort_caches(Machine& machine) {
  std::sort(machine.caches.begin(), machine.caches.end(),
            [](const Cache& a, const Cache& b) { return a.level != b.level ? a.level < b.level : a.cpus < b.cpus; });
}

}  // namespace hocket::topology
