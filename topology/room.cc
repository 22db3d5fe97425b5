// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/room.h"

#include <algorithm>
#include <functional>
#include <set>

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

bool may_be_searched(const Topology& topology) {
  const size_t seats = topology.seats().size();
  return seats <= kMaxSearchedSeats && seats * topology.links().size() <= kMaxLooks;
}

Roads roads_of(const Topology& topology) {
  if (!may_be_searched(topology)) return {};
  Roads roads{Reach::kFast, Ways(topology, Reach::kFast)};
  if (roads.ways.seats() < 2) return roads;
  if (!roads.ways.joins_all()) roads = {Reach::kAll, Ways(topology, Reach::kAll)};
  roads.joins_all = roads.ways.joins_all();
  if (roads.joins_all) roads.bound_gb_per_s = bus_bound_gb_per_s(topology, roads.reach);
  return roads;
}

std::vector<double> quanta(const Topology& topology, const Roads& roads, const std::vector<int>& parts, size_t most) {
  std::set<double, std::greater<>> result;
  const auto add = [&](double rate) {
    for (const int part : parts) result.insert(rate / part);
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
  std::vector<double> list(result.begin(), result.end());
  if (list.size() > most) list.resize(most);
  return list;
}

}  // namespace hocket::topology
