// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "simulate/topology_fabric.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "topology/room.h"

namespace hocket::simulate {
namespace {

constexpr size_t kMaxHops = UINT8_MAX;  // as events count them
constexpr double kSlowest = 1e-3;       // GB/s
constexpr double kPicosecondsPerMicrosecond = 1e6;

Status refused(std::string_view reason) {
  return {Code::kInvalidArgument, fmt::format("this topology cannot be simulated: {}", reason)};
}

}  // namespace

Result<TopologyFabric> TopologyFabric::make(Topology topology) {
  const std::vector<int32_t> seats = topology.seats();
  if (seats.empty()) return refused("nobody can sit on it");
  if (seats.size() > topology::kMaxSearchedSeats || seats.size() * topology.links().size() > topology::kMaxLooks) {
    return refused(fmt::format("{} seats and {} links are too many", seats.size(), topology.links().size()));
  }
  for (const Link& link : topology.links()) {
    if (link.gb_per_s >= kSlowest) continue;
    return refused(fmt::format("the link from {} to {} carries less than {} GB/s", topology.vertex(link.from).name,
                               topology.vertex(link.to).name, kSlowest));
  }
  std::optional<topology::Ways> ways = topology::Ways::taken(topology, topology::kMaxWayLinks);
  if (!ways.has_value()) return refused("the ways between its seats have too many links");
  for (size_t from = 0; from < seats.size(); ++from) {
    for (size_t to = 0; to < seats.size(); ++to) {
      if (ways->way(from, to).size() <= kMaxHops) continue;
      return refused(fmt::format("the way from {} to {} has more than {} links", topology.vertex(seats[from]).name,
                                 topology.vertex(seats[to]).name, kMaxHops));
    }
  }
  return TopologyFabric(std::move(topology), std::move(*ways));
}

TopologyFabric::TopologyFabric(Topology topology, topology::Ways ways)
    : topology_(std::move(topology)), ways_(std::move(ways)) {
  std::map<Picoseconds, uint32_t> known;
  for (size_t from = 0; from < ways_.seats(); ++from) {
    for (size_t to = 0; to < ways_.seats(); ++to) {
      MessageCost cost;
      cost.latency = std::llround(ways_.latency_us(topology_, from, to) * kPicosecondsPerMicrosecond);
      const auto [entry, is_new] = known.try_emplace(cost.latency, static_cast<uint32_t>(costs_.size()));
      if (is_new) costs_.push_back(cost);
      cost_of_.push_back(entry->second);
    }
  }
}

Status TopologyFabric::carries(const Program& program) const {
  if (static_cast<size_t>(program.ranks()) > ways_.seats())
    return refused(fmt::format("it has {} seats for {} ranks", ways_.seats(), program.ranks()));
  for (const Program::Pipe& pipe : program.pipes()) {
    const int32_t from = program.lanes()[pipe.sender].rank;
    const int32_t to = program.lanes()[pipe.receiver].rank;
    if (from == to || !way(from, to).empty()) continue;
    const std::vector<int32_t> seats = topology_.seats();
    return refused(fmt::format("{}: no way leads from {} to {}, but over other seats", program.name,
                               topology_.vertex(seats[static_cast<size_t>(from)]).name,
                               topology_.vertex(seats[static_cast<size_t>(to)]).name));
  }
  return {};
}

std::string TopologyFabric::link_name(LinkId link) const {
  const Link& it = topology_.link(static_cast<int32_t>(link));
  return fmt::format("{} > {} {}", topology_.vertex(it.from).name, topology_.vertex(it.to).name, name(it.kind));
}

Femtoseconds TopologyFabric::wire_byte(LinkId link) const {
  return std::llround(kFemtosecondsPerByte / topology_.link(static_cast<int32_t>(link)).gb_per_s);
}

}  // namespace hocket::simulate
