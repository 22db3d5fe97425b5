// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/ways.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

namespace hocket::topology {
namespace {

// Least latency first; the wider of two equal ones.
struct Cost {
  double latency_us = std::numeric_limits<double>::infinity();
  double gb_per_s = 0;
  friend bool operator<(const Cost& a, const Cost& b) {
    return std::tuple(a.latency_us, -a.gb_per_s) < std::tuple(b.latency_us, -b.gb_per_s);
  }
};

class Search {
 public:
  Search(const Topology& topology, Reach reach, const std::vector<bool>& is_seat)
      : topology_(topology), reach_(reach), is_seat_(is_seat) {}

  void run(int32_t start) {
    costs_.assign(topology_.vertices().size(), {});
    arrival_.assign(topology_.vertices().size(), -1);
    costs_[static_cast<size_t>(start)] = {0, std::numeric_limits<double>::infinity()};
    std::priority_queue<std::pair<Cost, int32_t>, std::vector<std::pair<Cost, int32_t>>, Later> open;
    open.push({costs_[static_cast<size_t>(start)], start});
    while (!open.empty()) {
      const auto [cost, vertex] = open.top();
      open.pop();
      if (costs_[static_cast<size_t>(vertex)] < cost) continue;
      if (vertex != start && is_seat_[static_cast<size_t>(vertex)]) continue;
      for (const int32_t number : topology_.links_from(vertex)) {
        const Link& link = topology_.link(number);
        if (reach_ == Reach::kFast && !is_fast(link.kind)) continue;
        const Cost next{cost.latency_us + link.latency_us, std::min(cost.gb_per_s, link.gb_per_s)};
        if (!(next < costs_[static_cast<size_t>(link.to)])) continue;
        costs_[static_cast<size_t>(link.to)] = next;
        arrival_[static_cast<size_t>(link.to)] = number;
        open.push({next, link.to});
      }
    }
  }

  Way way_to(int32_t start, int32_t vertex) const {
    Way way;
    while (vertex != start) {
      const int32_t number = arrival_[static_cast<size_t>(vertex)];
      if (number < 0) return {};
      way.push_back(number);
      vertex = topology_.link(number).from;
    }
    std::ranges::reverse(way);
    return way;
  }

 private:
  struct Later {
    bool operator()(const std::pair<Cost, int32_t>& a, const std::pair<Cost, int32_t>& b) const {
      return b.first < a.first;
    }
  };

  const Topology& topology_;
  const Reach reach_;
  const std::vector<bool>& is_seat_;
  std::vector<Cost> costs_;
  std::vector<int32_t> arrival_;  // the last link of the way to each vertex
};

}  // namespace

Ways::Ways(const Topology& topology, Reach reach) { fill(topology, reach, SIZE_MAX); }

std::optional<Ways> Ways::within(const Topology& topology, Reach reach, size_t most_links) {
  Ways ways;
  if (!ways.fill(topology, reach, most_links)) return std::nullopt;
  return ways;
}

std::optional<Ways> Ways::taken(const Topology& topology, size_t most_links) {
  std::optional<Ways> ways = within(topology, Reach::kFast, most_links);
  std::optional<Ways> others = within(topology, Reach::kAll, most_links);
  if (!ways.has_value() || !others.has_value()) return std::nullopt;
  for (size_t pair = 0; pair < ways->ways_.size(); ++pair) {
    if (!ways->ways_[pair].empty()) continue;
    ways->ways_[pair] = std::move(others->ways_[pair]);
    ways->links_ += ways->ways_[pair].size();
  }
  return ways;
}

bool Ways::fill(const Topology& topology, Reach reach, size_t most_links) {
  const std::vector<int32_t> seats = topology.seats();
  seats_ = seats.size();
  std::vector<bool> is_seat(topology.vertices().size(), false);
  for (const int32_t seat : seats) is_seat[static_cast<size_t>(seat)] = true;
  Search search(topology, reach, is_seat);
  for (const int32_t from : seats) {
    search.run(from);
    for (const int32_t to : seats) {
      ways_.push_back(search.way_to(from, to));
      links_ += ways_.back().size();
      if (links_ > most_links) return false;
    }
  }
  return true;
}

bool Ways::joins_all() const {
  for (const bool forward : {true, false}) {
    std::vector<bool> seen(seats_, false);
    std::vector<size_t> open{0};
    seen[0] = true;
    for (size_t i = 0; i < open.size(); ++i) {
      for (size_t other = 0; other < seats_; ++other) {
        const Way& between = forward ? way(open[i], other) : way(other, open[i]);
        if (seen[other] || between.empty()) continue;
        seen[other] = true;
        open.push_back(other);
      }
    }
    if (open.size() < seats_) return false;
  }
  return true;
}

double Ways::latency_us(const Topology& topology, size_t from, size_t to) const {
  double sum = 0;
  for (const int32_t number : way(from, to)) sum += topology.link(number).latency_us;
  return sum;
}

double Ways::gb_per_s(const Topology& topology, size_t from, size_t to) const {
  double least = std::numeric_limits<double>::infinity();
  for (const int32_t number : way(from, to)) least = std::min(least, topology.link(number).gb_per_s);
  return way(from, to).empty() ? 0 : least;
}

bool is_fast(Link::Kind kind) { return kind == Link::Kind::kNvlink || kind == Link::Kind::kXgmi; }

}  // namespace hocket::topology
