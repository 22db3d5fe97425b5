// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "choose/demand.h"
#include "plan/lanes.h"
#include "topology/levels.h"
#include "topology/rings.h"
#include "topology/room.h"
#include "topology/trees.h"
#include "topology/ways.h"

namespace hocket {
namespace {

class Loads {
 public:
  Loads(const Topology& topology, topology::Ways ways) : topology_(topology), ways_(std::move(ways)) {}

  // Nothing where the algorithm is none that the model knows.
  std::optional<Femtoseconds> of(const Builder& builder, BuildOptions options) const {
    NetworkModel flat;
    flat.levels.push_back({"host", options.ranks, {}});
    if (!demand(builder, options, flat).has_value()) return std::nullopt;
    std::vector<double> seconds(topology_.links().size(), 0);
    for (options.rank = 0; options.rank < options.ranks; ++options.rank) add(builder.build(options), seconds);
    const double most = seconds.empty() ? 0 : std::ranges::max(seconds);
    return static_cast<Femtoseconds>(std::llround(most * kFemtosecondsPerByte));
  }

 private:
  // Nanoseconds for each byte of a call, by link.
  void add(const Plan& plan, std::vector<double>& seconds) const {
    const int32_t parts = divides(plan.collective) ? std::max(plan.send_chunks, plan.recv_chunks) : parts_of(plan);
    for (const Lane& lane : plan.lanes) {
      for (const Step& step : lane.steps) {
        const double share = static_cast<double>(chunks_moved(step)) / parts;
        for (const Place& place : step.destinations) {
          if (place.kind != Place::Kind::kMessage) continue;
          for (const int32_t link : ways_.way(static_cast<size_t>(plan.rank), static_cast<size_t>(place.peer)))
            seconds[static_cast<size_t>(link)] += share / topology_.link(link).gb_per_s;
        }
      }
    }
  }

  const Topology& topology_;
  const topology::Ways ways_;
};

}  // namespace

Placement placement_on(const Topology& topology) {
  const std::vector<int32_t> seats = topology.seats();
  Placement placement{.ranks = static_cast<Rank>(seats.size())};
  std::map<int32_t, std::vector<Rank>> hosts;
  for (size_t place = 0; place < seats.size(); ++place)
    hosts[topology.vertex(seats[place]).host].push_back(static_cast<Rank>(place));
  for (auto& [number, ranks] : hosts) {
    placement.per_host = std::max(placement.per_host, static_cast<Rank>(ranks.size()));
    placement.hosts.push_back(std::move(ranks));
  }
  if (placement.hosts.size() < 2) return placement;
  placement.rails.resize(seats.size());
  const std::vector<std::vector<int32_t>> rails = topology::rails(topology);
  for (size_t rail = 0; rail < rails.size(); ++rail) {
    for (const int32_t place : rails[rail]) placement.rails[static_cast<size_t>(place)] = static_cast<int32_t>(rail);
  }
  return placement;
}

Result<Routes> find_routes(const Topology& topology) {
  const auto ranks = static_cast<Rank>(topology.seats().size());
  if (ranks < 2 || ranks > kMaxRoutedRanks)
    return Status(Code::kInvalidArgument, fmt::format("{} seats, not 2 to {}", ranks, kMaxRoutedRanks));
  topology::Rings rings = topology::find_rings(topology);
  // Where fast ways join all seats, nobody has looked at the others yet.
  auto ways = topology::Ways::taken(topology, topology::kMaxWayLinks);
  if (rings.too_large || !ways.has_value())
    return Status(Code::kInvalidArgument, "seats and links are too many to search");
  Routes routes{std::move(rings.orders), topology::find_trees(topology).parents, {}, placement_on(topology).rails};
  if (routes.rings.empty()) return Status(Code::kInvalidArgument, "a seat cannot reach all others");
  const Loads loads(topology, std::move(*ways));
  BuildOptions options{.ranks = ranks};
  options.routes = routes.rings;
  options.trees = routes.trees;
  for (const Builder& builder : builders()) {
    if (builder.uses_windows() || !builder.fits(options)) continue;
    const std::optional<Femtoseconds> byte = loads.of(builder, options);
    if (byte.has_value()) routes.loads.push_back({builder.collective, std::string(builder.name), *byte});
  }
  return routes;
}

}  // namespace hocket
