// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/wires.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "topology/rings.h"
#include "topology/room.h"
#include "topology/trees.h"
#include "topology/ways.h"

namespace hocket {
namespace {

constexpr double kBlockBytes = 1e6;
constexpr double kSlowest = 1e12;  // refused by who makes the schedule

int64_t time_of(const Link& link) {
  return std::max<int64_t>(1, std::llround(std::min(kBlockBytes / link.gb_per_s, kSlowest)));
}

// What joins ranks' seats, with nanoseconds for a block: links from one to the other, or else the way between them,
// whose links others share. Those between neighbours by number come first, so that all begin with another one.
std::vector<Wire> wires_of(const Topology& topology, const topology::Roads& roads) {
  const std::vector<int32_t> seats = topology.seats();
  std::vector<Wire> wires;
  for (size_t distance = 1; distance < seats.size(); ++distance) {
    for (size_t from = 0; from < seats.size(); ++from) {
      const size_t to = (from + distance) % seats.size();
      Wire wire{static_cast<Rank>(from), static_cast<Rank>(to)};
      const size_t before = wires.size();
      for (const int32_t number : topology.links_from(seats[from])) {
        const Link& link = topology.link(number);
        if (link.to != seats[to] || (roads.reach == topology::Reach::kFast && !topology::is_fast(link.kind))) continue;
        wire.time = time_of(link);
        wires.push_back(wire);
      }
      if (wires.size() > before || roads.ways.way(from, to).empty()) continue;
      for (const int32_t number : roads.ways.way(from, to)) {
        wire.ports.push_back({number, time_of(topology.link(number))});
        wire.time = std::max(wire.time, wire.ports.back().time);
      }
      wires.push_back(std::move(wire));
    }
  }
  return wires;
}

}  // namespace

Result<OnWires> synthesise_on(Collective collective, const Topology& topology) {
  const auto ranks = static_cast<Rank>(topology.seats().size());
  if (ranks > kMaxSynthesised) {
    return Status(Code::kInvalidArgument, fmt::format("{} seats, not 2 to {}", ranks, kMaxSynthesised));
  }
  const topology::Roads roads = topology::roads_of(topology);
  if (roads.too_large) return Status(Code::kInvalidArgument, "seats and links are too many to search");
  const topology::Rings rings = topology::find_rings(topology);
  const topology::Trees trees = topology::find_trees(topology);
  const std::vector<Wire> wires = wires_of(topology, roads);
  Result<Synthesis> made = synthesise(collective, ranks, wires, {.rings = rings.orders, .trees = trees.parents});
  if (!made.ok()) return made.status();
  // As the ring's: each of n blocks goes to n - 1 others, twice in an all-reduce.
  const double moved = (collective == Collective::kAllReduce ? 2.0 : 1.0) * (ranks - 1) * kBlockBytes;
  const double gb_per_s = moved / made->time;
  return OnWires{std::move(*made), wires.size(), gb_per_s, roads.bound_gb_per_s};
}

}  // namespace hocket
