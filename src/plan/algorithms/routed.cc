// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Rings as a search of the topology found them, each with its share of the data in lanes of its own: the ring algorithm
// with the ranks in the order of the route, and `lanes` parts for each route. Which rank ends with which chunk is of no
// concern.
#include <algorithm>
#include <vector>

#include "plan/algorithms/algorithms.h"
#include "plan/embed.h"
#include "plan/write.h"

namespace hocket::plan::routed {
namespace {

bool passes_all_once(const std::vector<Rank>& route, Rank ranks) {
  if (route.size() != static_cast<size_t>(ranks)) return false;
  std::vector<bool> seen(route.size(), false);
  for (const Rank rank : route) {
    if (rank < 0 || rank >= ranks || seen[static_cast<size_t>(rank)]) return false;
    seen[static_cast<size_t>(rank)] = true;
  }
  return true;
}

}  // namespace

bool fits(const BuildOptions& options) {
  return fits_any(options) && !options.routes.empty() &&
         options.routes.size() * static_cast<size_t>(options.lanes) <= kMaxLanes &&
         std::ranges::all_of(options.routes, [&](const auto& route) { return passes_all_once(route, options.ranks); });
}

Plan all_reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "routed_rings", options);
  const auto routes = static_cast<int32_t>(options.routes.size());
  const int32_t part_chunks = options.lanes * options.ranks;
  Plan plan = begin(Collective::kAllReduce, "routed_rings", options, routes * options.lanes, routes * part_chunks);
  for (int32_t number = 0; number < routes; ++number) {
    const std::vector<Rank>& route = options.routes[static_cast<size_t>(number)];
    BuildOptions own = options;
    own.rank = static_cast<Rank>(std::ranges::find(route, options.rank) - route.begin());
    const Plan part = ring::all_reduce(own);
    embed(plan, part,
          {.members = route,
           .send = {Buffer::kSend, number * part_chunks},
           .recv = {Buffer::kRecv, number * part_chunks},
           .scratch = {},
           .block = 1,
           .first = true,
           .last = true,
           .first_lane = static_cast<size_t>(number * options.lanes)});
    plan.depth = part.depth;
    plan.message_chunks = part.message_chunks;
  }
  return plan;
}

}  // namespace hocket::plan::routed
