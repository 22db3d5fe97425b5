// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace hocket {
namespace {

// What `hocket tune` found for all-reduce of 2, 4 and 8 ranks on two cores of an AMD EPYC server, over shared memory
// and over TCP (docs/choosing.md); it finds those of a machine. Between hosts a plain Ethernet, with the incast of
// perf/line_rate.sh.
Tuning two_cores() {
  Tuning tuning;
  tuning.local = {.call = 171'000,
                  .step = 100,
                  .place_byte = 6'500,
                  .combine_byte = 100,
                  .turn = 1'374'000,
                  .cold_byte = 53'400,
                  .cache_bytes = 15'400'000};
  tuning.memory = {.latency = 1'000,
                   .send = 21'900,
                   .receive = 21'900,
                   .send_byte = 22'200,
                   .receive_byte = 22'200,
                   .unbound = 88'400,
                   .near_bytes = 4'000,
                   .held_byte = 54'500,
                   .held_bytes = 510'000'000};
  tuning.socket = {
      .latency = 1'000, .send = 3'000'000, .receive = 3'000'000, .send_byte = 124'000, .receive_byte = 124'000};
  tuning.network = tuning.socket;
  tuning.network.latency = 20'000'000;
  tuning.network.wire_byte = 800'000;  // 10 Gbit/s
  tuning.network.incast = 300;
  return tuning;
}

// The same where a line takes 200 ns from one core to the other instead of 50.
Tuning far_cores() {
  Tuning tuning = two_cores();
  tuning.local = {.call = 204'000,
                  .step = 10'700,
                  .place_byte = 9'900,
                  .combine_byte = 100,
                  .turn = 1'810'000,
                  .cold_byte = 52'000,
                  .cache_bytes = 15'100'000};
  tuning.memory = {.latency = 97'900,
                   .send = 102'000,
                   .receive = 102'000,
                   .send_byte = 44'600,
                   .receive_byte = 44'600,
                   .unbound = 110'000,
                   .near_bytes = 29'700,
                   .held_byte = 88'700,
                   .held_bytes = 510'000'000};
  return tuning;
}

}  // namespace

const Tuning& built_in_tuning(CoreDistance distance) {
  // Never destroyed: communicators may still be created as the process ends.
  static const Tuning& kNear = *new Tuning(two_cores());
  static const Tuning& kFar = *new Tuning(far_cores());
  return distance == CoreDistance::kNear ? kNear : kFar;
}

std::optional<Medium> medium_of(const Placement& placement) {
  if (placement.per_host == placement.ranks) return placement.memory ? Medium::kMemory : Medium::kSocket;
  return placement.per_host == 1 ? std::optional(Medium::kNetwork) : std::nullopt;
}

NetworkModel network_of(const Tuning& tuning, const Placement& placement) {
  NetworkModel model;
  model.local = tuning.local;
  model.cores = tuning.cores;
  const bool in_memory = placement.memory && placement.per_host > 1;  // what goes between hosts does not
  model.levels.push_back({"host", placement.per_host, placement.memory ? tuning.memory : tuning.socket, in_memory});
  if (placement.ranks > placement.per_host) model.levels.push_back({"network", kMaxChildren, tuning.network});
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
  if (!placement.rails.empty()) {
    const auto rail = [&](Rank rank) { return placement.rails[static_cast<size_t>(rank)]; };
    // Where hosts differ, the rails that all of them have come first: as many members as the smallest has talk across.
    std::map<int32_t, size_t> hosts_on;
    for (const std::vector<Rank>& host : hosts) {
      std::set<int32_t> own;
      for (const Rank rank : host) own.insert(rail(rank));
      for (const int32_t each : own) ++hosts_on[each];
    }
    const auto place = [&](Rank rank) { return std::pair(hosts_on[rail(rank)] < hosts.size(), rail(rank)); };
    for (std::vector<Rank>& host : hosts) std::ranges::stable_sort(host, {}, place);
  }
  Result<Hierarchy> made = make_hierarchy({std::move(hosts)}, placement.ranks);
  return made.ok() ? std::optional(std::move(*made)) : std::nullopt;
}

Routes routes_of(const Tuning& tuning, const Placement& placement) {
  if (placement.per_host == placement.ranks && tuning.routes.are_for(placement.ranks)) return tuning.routes;
  std::vector<Rank> route;
  for (const std::vector<Rank>& host : placement.hosts) route.insert(route.end(), host.begin(), host.end());
  if (std::ranges::is_sorted(route)) return {};
  return {.rings = {std::move(route)}, .trees = {}};
}

Routes renumbered(Routes routes, std::span<const Rank> order) {
  if (!routes.are_for(static_cast<Rank>(order.size()))) return routes;
  const auto place = [](Rank rank) { return static_cast<size_t>(rank); };
  std::vector<Rank> number(order.size());
  for (size_t i = 0; i < order.size(); ++i) number[place(order[i])] = static_cast<Rank>(i);
  const auto told_in_order = [&](const std::vector<int32_t>& by_rank) {
    std::vector<int32_t> result;
    for (const Rank rank : order) result.push_back(by_rank[place(rank)]);
    return result;
  };
  for (std::vector<Rank>& tree : routes.trees) tree = told_in_order(tree);
  for (auto* kind : {&routes.rings, &routes.trees}) {
    for (std::vector<Rank>& route : *kind) {
      for (Rank& rank : route) rank = number[place(rank)];
    }
  }
  if (!routes.rails.empty()) routes.rails = told_in_order(routes.rails);
  // Plans that go by the ranks' numbers load other links now.
  const auto by_number = [](const LinkLoad& load) { return !load.algorithm.starts_with("routed_"); };
  if (!std::ranges::is_sorted(order)) std::erase_if(routes.loads, by_number);
  return routes;
}

std::string fingerprint(const Machine& machine) {
  std::string text =
      fmt::format("{}-{}-{}-{}", machine.processor, machine.all_cpus, machine.all_cores, machine.memory_bytes >> 30);
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c <= ' ' || c >= 0x7f; }, '_');
  return text;
}

}  // namespace hocket
