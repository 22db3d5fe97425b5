// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <ctime>
#include <numeric>
#include <span>
#include <thread>

namespace hocket::topology {
namespace {

constexpr size_t kMostReaders = 64;
constexpr size_t kMostPairs = 64;
constexpr size_t kLeastBytes = size_t{64} << 20;  // that all of them read
constexpr size_t kCaches = 2;                     // times the largest cache, so that it cannot hold them
constexpr size_t kMemoryShare = 8;                // no more than this part of the machine's memory
constexpr int kGoes = 4;                          // the fastest counts

// Where something is, as discover() names it.
struct Seat {
  std::string name;
  std::string node;
  CpuList cpus;
};

std::string name_of(const NumaNode& node) { return fmt::format("cpu{}", node.number); }

std::vector<Seat> complexes(const Machine& machine) {
  std::vector<Seat> result;
  for (const Cache& cache : machine.caches) {
    if (cache.level != 3 || cache.cpus.empty()) continue;
    Seat seat{fmt::format("complex{}", result.size()), {}, cache.cpus};
    for (const NumaNode& node : machine.nodes) {
      if (std::ranges::binary_search(node.cpus, cache.cpus[0])) seat.node = name_of(node);
    }
    result.push_back(std::move(seat));
  }
  return result;
}

size_t bytes_to_read(const Machine& machine) {
  size_t cache = 0;
  for (const Cache& one : machine.caches) cache = std::max(cache, one.bytes);
  const size_t wanted = std::max(kLeastBytes, kCaches * cache);
  return machine.memory_bytes == 0 ? wanted : std::min(wanted, machine.memory_bytes / kMemoryShare);
}

uint64_t sum_of(std::span<const uint64_t> words) { return std::accumulate(words.begin(), words.end(), uint64_t{0}); }

// Memory lies where the thread runs that writes it first.
std::vector<std::vector<uint64_t>> memory_at(int cpu, size_t parts, size_t bytes) {
  std::vector<std::vector<uint64_t>> memory(parts);
  std::thread([&] {
    if (!pin_thread(cpu)) return;
    for (auto& part : memory) part.assign(bytes / parts / sizeof(uint64_t), 1);
  }).join();
  return memory;
}

// Of this thread: what others take of its core says nothing of the memory.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// GB/s at which a thread reads this; 0: it cannot be put there. All begin each go together.
double read_one(int cpu, std::span<const uint64_t> words, std::barrier<>& together) {
  const bool in_place = pin_thread(cpu);
  double best = 0;
  for (int go = 0; go < kGoes; ++go) {
    together.arrive_and_wait();
    const double begin = processor_seconds();
    if (!in_place || sum_of(words) != words.size()) continue;
    best = std::max(best, static_cast<double>(words.size_bytes()) / (processor_seconds() - begin) / 1e9);
  }
  return best;
}

double read_rate(CpuList readers, int home, size_t bytes) {
  if (readers.size() > kMostReaders) readers.resize(kMostReaders);
  const std::vector<std::vector<uint64_t>> memory = memory_at(home, readers.size(), bytes);
  std::barrier together(static_cast<std::ptrdiff_t>(readers.size()));
  std::vector<double> rates(readers.size(), 0);
  std::vector<std::thread> threads;
  for (size_t number = 0; number < readers.size(); ++number) {
    threads.emplace_back([&, number] { rates[number] = read_one(readers[number], memory[number], together); });
  }
  for (std::thread& thread : threads) thread.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

void add_rate(std::vector<MemoryRate>& rates, const std::string& reader, const CpuList& cpus, const NumaNode& node,
              size_t bytes) {
  if (cpus.empty() || node.cpus.empty()) return;
  const double rate = read_rate(cpus, node.cpus[0], bytes);
  if (rate > 0) rates.push_back({reader, name_of(node), rate});
}

std::vector<MemoryRate> memory_rates(const Machine& machine) {
  const size_t bytes = bytes_to_read(machine);
  std::vector<MemoryRate> rates;
  for (const Seat& complex : complexes(machine)) {
    for (const NumaNode& node : machine.nodes) {
      if (name_of(node) == complex.node) add_rate(rates, complex.name, complex.cpus, node, bytes);
    }
  }
  for (const NumaNode& reader : machine.nodes) {
    for (const NumaNode& node : machine.nodes) {
      if (reader.number != node.number) add_rate(rates, name_of(reader), reader.cpus, node, bytes);
    }
  }
  return rates;
}

// The first cpus of the cores that share a cache.
std::vector<CpuList> first_cpus(const Machine& machine) {
  std::vector<Seat> groups = complexes(machine);
  if (groups.empty()) groups.push_back({"", "", machine.cpus});
  std::vector<CpuList> result;
  for (const Seat& group : groups) {
    CpuList& cpus = result.emplace_back();
    for (const CpuList& core : machine.cores) {
      if (!core.empty() && std::ranges::binary_search(group.cpus, core[0])) cpus.push_back(core[0]);
    }
  }
  std::erase_if(result, [](const CpuList& cpus) { return cpus.empty(); });
  return result;
}

std::vector<CorePair> core_pairs(const Machine& machine) {
  const std::vector<CpuList> groups = first_cpus(machine);
  std::vector<std::pair<int, int>> wanted;
  for (const CpuList& cpus : groups) {
    if (cpus.size() > 1) wanted.emplace_back(cpus[0], cpus[1]);
  }
  for (size_t one = 0; one < groups.size(); ++one) {
    for (size_t other = one + 1; other < groups.size(); ++other) wanted.emplace_back(groups[one][0], groups[other][0]);
  }
  if (wanted.size() > kMostPairs) wanted.resize(kMostPairs);
  std::vector<CorePair> pairs;
  for (const auto& [first, second] : wanted) {
    if (const auto pair = measure_pair(first, second)) pairs.push_back(*pair);
  }
  return pairs;
}

Result<Topology> changed(const Topology& topology, std::vector<Link> links) {
  const auto vertices = topology.vertices();
  return Topology::make({vertices.begin(), vertices.end()}, std::move(links));
}

}  // namespace

Measurements measure(const Machine& machine) { return {memory_rates(machine), core_pairs(machine)}; }

Result<Topology> with_measured(const Topology& claimed, const Measurements& seen) {
  std::vector<Link> links(claimed.links().begin(), claimed.links().end());
  for (Link& link : links) {
    if (link.kind != Link::Kind::kCache && link.kind != Link::Kind::kSocket) continue;
    // What a reader reads comes to it. A complex' own link carries what it writes, too, which nobody measured apart.
    const auto is_it = [&](const MemoryRate& rate) {
      const std::string& from = claimed.vertex(link.from).name;
      const std::string& to = claimed.vertex(link.to).name;
      return (rate.node == from && rate.reader == to) ||
             (link.kind == Link::Kind::kCache && rate.node == to && rate.reader == from);
    };
    const auto rate = std::ranges::find_if(seen.memory, is_it);
    if (rate == seen.memory.end()) continue;
    link.gb_per_s = rate->gb_per_s;
    link.measured = true;
  }
  return changed(claimed, std::move(links));
}

Result<Topology> with_measured(const Topology& claimed, const NetworkRate& seen) {
  std::vector<Link> links(claimed.links().begin(), claimed.links().end());
  const bool is_known = claimed.all(Vertex::Kind::kNic).size() == 1;
  for (Link& link : links) {
    if (link.kind != Link::Kind::kNetwork || !is_known) continue;
    link.gb_per_s = seen.gb_per_s;
    link.latency_us = seen.latency_us / 2;  // out of one host and into the other
    link.measured = true;
  }
  return changed(claimed, std::move(links));
}

std::vector<std::string> slow_links(const Topology& claimed, const Topology& measured) {
  std::vector<std::string> result;
  for (size_t i = 0; i < measured.links().size(); ++i) {
    const Link& seen = measured.links()[i];
    const Link& said = claimed.links()[i];
    if (!seen.measured || 2 * seen.gb_per_s >= said.gb_per_s) continue;
    result.push_back(
        fmt::format("{} - {} carries {:.3g} GB/s where {:.3g} are claimed: what crosses it takes {:.1f} "
                    "times as long",
                    measured.vertex(seen.from).name, measured.vertex(seen.to).name, seen.gb_per_s, said.gb_per_s,
                    said.gb_per_s / seen.gb_per_s));
  }
  return result;
}

}  // namespace hocket::topology
