// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/room.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "topology/bound.h"

namespace hocket::topology {

void Room::empty(double quantum) {
  left_.resize(topology_.links().size());
  for (size_t link = 0; link < left_.size(); ++link)
    left_[link] = static_cast<int>(topology_.link(static_cast<int32_t>(link)).gb_per_s * kSameRate / quantum);
}

int Room::left(int32_t from, int32_t to) const {
  const Way& way = ways_.way(static_cast<size_t>(from), static_cast<size_t>(to));
  int least = way.empty() ? 0 : INT32_MAX;
  for (const int32_t link : way) least = std::min(least, left_[static_cast<size_t>(link)]);
  return least;
}

int64_t Room::looks(int32_t from, int32_t to) const {
  return 1 + static_cast<int64_t>(ways_.way(static_cast<size_t>(from), static_cast<size_t>(to)).size());
}

bool Room::take(int32_t from, int32_t to) {
  if (left(from, to) < 1) return false;
  for (const int32_t link : ways_.way(static_cast<size_t>(from), static_cast<size_t>(to)))
    --left_[static_cast<size_t>(link)];
  return true;
}

void Room::give_back(int32_t from, int32_t to) {
  for (const int32_t link : ways_.way(static_cast<size_t>(from), static_cast<size_t>(to)))
    ++left_[static_cast<size_t>(link)];
}

namespace {

std::optional<Ways> short_enough(const Topology& topology, Reach reach) {
  const size_t seats = topology.seats().size();
  if (seats > kMaxSearchedSeats || seats * topology.links().size() > kMaxLooks) return std::nullopt;
  return Ways::within(topology, reach, std::min(kMaxWayLinks, kMaxGrowing / std::max<size_t>(1, seats)));
}

}  // namespace

Roads roads_of(const Topology& topology) {
  Roads roads;
  for (const Reach reach : {Reach::kFast, Reach::kAll}) {
    std::optional<Ways> ways = short_enough(topology, reach);
    if (!ways.has_value()) {
      roads.too_large = true;
      return roads;
    }
    roads.reach = reach;
    roads.ways = std::move(*ways);
    if (roads.ways.seats() < 2) return roads;
    if (roads.ways.joins_all()) break;
  }
  roads.joins_all = roads.ways.joins_all();
  if (roads.joins_all) roads.bound_gb_per_s = bus_bound_gb_per_s(topology, roads.reach);
  return roads;
}

std::vector<double> quanta(const Topology& topology, const Roads& roads, const std::vector<int>& parts, size_t most) {
  std::set<double, std::greater<>> result;
  const auto add = [&](double rate) {
    for (const int part : parts) result.insert(rate / part);
    while (result.size() > most) result.erase(std::prev(result.end()));
  };
  if (roads.reach == Reach::kFast) {
    for (const Link& link : topology.links()) {
      if (is_fast(link.kind)) add(link.gb_per_s / link.count);
    }
  } else {
    for (size_t from = 0; from < roads.ways.seats(); ++from) {
      for (size_t to = 0; to < roads.ways.seats(); ++to) {
        if (from != to) add(roads.ways.gb_per_s(topology, from, to));
      }
    }
  }
  result.erase(0);
  return {result.begin(), result.end()};
}

}  // namespace hocket::topology
