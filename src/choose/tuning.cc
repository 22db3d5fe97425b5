// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/tuning.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket {
namespace {

// Of the order of what two cores of a server of 2024 show; `hocket tune` finds those of a machine.
Tuning two_cores() {
  Tuning tuning;
  tuning.local = {.call = 250'000,
                  .step = 60'000,
                  .place_byte = 25'000,
                  .combine_byte = 10'000,
                  .turn = 2'000'000,
                  .cold_byte = 50'000,
                  .cache_bytes = 16 << 20};
  tuning.memory = {.latency = 150'000, .send = 60'000, .receive = 60'000, .send_byte = 50'000, .receive_byte = 50'000};
  tuning.socket = {
      .latency = 3'000'000, .send = 1'500'000, .receive = 1'500'000, .send_byte = 100'000, .receive_byte = 100'000};
  return tuning;
}

}  // namespace

const Tuning& built_in_tuning() {
  static const Tuning kTuning = two_cores();
  return kTuning;
}

NetworkModel network_of(const Tuning& tuning, const Placement& placement) {
  NetworkModel model;
  model.local = tuning.local;
  model.cores = tuning.cores;
  model.levels.push_back({"host", placement.per_host, placement.memory ? tuning.memory : tuning.socket});
  if (placement.ranks > placement.per_host) model.levels.push_back({"network", kMaxChildren, tuning.socket});
  if (!placement.hosts.empty()) model.seats.resize(static_cast<size_t>(placement.ranks));
  for (size_t host = 0; host < placement.hosts.size(); ++host) {
    Rank seat = static_cast<Rank>(host) * placement.per_host;
    for (const Rank rank : placement.hosts[host]) model.seats[static_cast<size_t>(rank)] = seat++;
  }
  return model;
}

std::optional<Hierarchy> hierarchy_of(const Placement& placement) {
  if (placement.per_host == 1 || placement.per_host == placement.ranks) return std::nullopt;
  std::vector<std::vector<Rank>> hosts = placement.hosts;
  if (hosts.empty()) {
    for (Rank rank = 0; rank < placement.ranks; ++rank) {
      if (rank % placement.per_host == 0) hosts.emplace_back();
      hosts.back().push_back(rank);
    }
  }
  Result<Hierarchy> made = make_hierarchy({std::move(hosts)}, placement.ranks);
  return made.ok() ? std::optional(std::move(*made)) : std::nullopt;
}

std::string fingerprint(const Machine& machine) {
  std::string text = fmt::format("{}-{}-{}-{}", machine.processor, machine.cpus.size(), machine.cores.size(),
                                 machine.memory_bytes >> 30);
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c <= ' ' || c >= 0x7f; }, '_');
  return text;
}

}  // namespace hocket
