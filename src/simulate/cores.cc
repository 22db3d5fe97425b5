// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "simulate/cores.h"

#include <algorithm>

namespace hocket::simulate {

Cores::Cores(const Fabric& fabric, int32_t ranks) : fabric_(fabric) {
  std::vector<int32_t> population;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const auto host = static_cast<size_t>(fabric.host_of(rank));
    if (population.size() <= host) population.resize(host + 1);
    ++population[host];
  }
  hosts_.resize(population.size());
  for (size_t host = 0; host < hosts_.size(); ++host) {
    const int32_t cores = fabric.cores_of(static_cast<int32_t>(host));
    hosts_[host].crowded = cores > 0 && cores < population[host];
    if (hosts_[host].crowded) hosts_[host].cores.resize(static_cast<size_t>(cores));
  }
}

std::optional<Picoseconds> Cores::take(int32_t rank) {
  Host& host = host_of(rank);
  if (!host.crowded) return 0;
  Core* best = nullptr;
  for (Core& core : host.cores) {
    if (core.rank == rank) return 0;
    if (core.rank == kNone && (best == nullptr || core.last == rank)) best = &core;
  }
  if (best == nullptr) {
    if (std::find(host.waiting.begin(), host.waiting.end(), rank) == host.waiting.end()) host.waiting.push_back(rank);
    return std::nullopt;
  }
  best->rank = rank;
  return best->last == rank ? 0 : fabric_.local().turn;
}

int32_t Cores::leave(int32_t rank) {
  Host& host = host_of(rank);
  if (!host.crowded) return kNone;
  std::erase(host.waiting, rank);
  const auto core = std::find_if(host.cores.begin(), host.cores.end(), [&](const Core& c) { return c.rank == rank; });
  if (core == host.cores.end()) return kNone;
  *core = {kNone, rank};
  if (host.waiting.empty()) return kNone;
  const int32_t next = host.waiting.front();
  host.waiting.pop_front();
  return next;
}

}  // namespace hocket::simulate
