// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/rings.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "topology/bound.h"

namespace hocket::topology {
namespace {

constexpr size_t kMostRings = 64;
constexpr int kBeginnings = 400;
constexpr int kMostTries = 4000;          // of hops, in one ring
constexpr int64_t kAllTries = 3'000'000;  // in all
constexpr double kSame = 1.000001;

using Order = std::vector<int32_t>;

// One packing of rings that carry `quantum` each.
class Packing {
 public:
  Packing(const Topology& topology, const Ways& ways, double quantum)
      : topology_(topology), ways_(ways), quantum_(quantum), room_(topology.links().size()) {
    for (size_t seat = 0; seat < ways.seats(); ++seat) neighbours_.push_back(sorted_neighbours(seat));
  }

  // `both`: each ring comes with its reverse where that is free too.
  std::vector<Order> pack(uint32_t seed, bool both) {
    random_.seed(seed);
    for (size_t link = 0; link < room_.size(); ++link)
      room_[link] = static_cast<int>(topology_.link(static_cast<int32_t>(link)).gb_per_s * kSame / quantum_);
    std::vector<Order> rings;
    while (rings.size() < kMostRings && find()) {
      rings.push_back(ring_);
      Order reverse = ring_;
      std::ranges::reverse(reverse);
      if (both && rings.size() < kMostRings && take_all(reverse)) rings.push_back(reverse);
    }
    return rings;
  }

  int64_t tries() const { return all_tries_; }

 private:
  // Nearest first; the random part of the order comes later, among equals.
  std::vector<int32_t> sorted_neighbours(size_t seat) const {
    std::vector<int32_t> result;
    for (size_t other = 0; other < ways_.seats(); ++other) {
      if (other != seat && !ways_.way(seat, other).empty()) result.push_back(static_cast<int32_t>(other));
    }
    std::ranges::stable_sort(
        result, {}, [&](int32_t other) { return ways_.latency_us(topology_, seat, static_cast<size_t>(other)); });
    return result;
  }

  const Way& hop(int32_t from, int32_t to) const {
    return ways_.way(static_cast<size_t>(from), static_cast<size_t>(to));
  }

  // All or nothing; a way never has a link twice.
  bool take(int32_t from, int32_t to) {
    const Way& way = hop(from, to);
    if (way.empty() || std::ranges::any_of(way, [&](int32_t link) { return room_[static_cast<size_t>(link)] < 1; }))
      return false;
    for (const int32_t link : way) --room_[static_cast<size_t>(link)];
    return true;
  }

  void give_back(int32_t from, int32_t to) {
    for (const int32_t link : hop(from, to)) ++room_[static_cast<size_t>(link)];
  }

  bool take_all(const Order& ring) {
    for (size_t i = 0; i < ring.size(); ++i) {
      if (take(ring[i], ring[(i + 1) % ring.size()])) continue;
      while (i-- > 0) give_back(ring[i], ring[i + 1]);
      return false;
    }
    return true;
  }

  bool find() {
    tries_ = 0;
    ring_ = {0};
    visited_.assign(ways_.seats(), false);
    visited_[0] = true;
    return extend();
  }

  int room(int32_t from, int32_t to) const {
    int least = INT32_MAX;
    for (const int32_t link : hop(from, to)) least = std::min(least, room_[static_cast<size_t>(link)]);
    return least;
  }

  // The nearest ones first, those with most room before others, chance decides.
  Order candidates(int32_t here) {
    Order result;
    for (const int32_t next : neighbours_[static_cast<size_t>(here)]) {
      if (!visited_[static_cast<size_t>(next)] && room(here, next) > 0) result.push_back(next);
    }
    std::ranges::shuffle(result, random_);
    std::ranges::stable_sort(result, {}, [&](int32_t next) {
      return std::pair(ways_.latency_us(topology_, static_cast<size_t>(here), static_cast<size_t>(next)),
                       -room(here, next));
    });
    return result;
  }

  bool extend() {
    const int32_t here = ring_.back();
    if (ring_.size() == ways_.seats()) return take(here, 0);
    for (const int32_t next : candidates(here)) {
      ++all_tries_;
      if (++tries_ > kMostTries) return false;
      if (!take(here, next)) continue;
      ring_.push_back(next);
      visited_[static_cast<size_t>(next)] = true;
      if (extend()) return true;
      visited_[static_cast<size_t>(next)] = false;
      ring_.pop_back();
      give_back(here, next);
    }
    return false;
  }

  const Topology& topology_;
  const Ways& ways_;
  const double quantum_;
  std::vector<int> room_;  // rings that each link can still carry
  std::vector<Order> neighbours_;
  std::mt19937 random_;
  Order ring_;
  std::vector<bool> visited_;
  int tries_ = 0;
  int64_t all_tries_ = 0;
};

// What one ring may carry: a wire of a fast link or half of it; over other links the width of a way, or a part of it.
std::vector<double> quanta(const Topology& topology, const Ways& ways, Reach reach) {
  std::set<double, std::greater<>> result;
  if (reach == Reach::kFast) {
    for (const Link& link : topology.links()) {
      if (!is_fast(link.kind)) continue;
      for (const double parts : {1, 2}) result.insert(link.gb_per_s / link.count / parts);
    }
  } else {
    for (size_t from = 0; from < ways.seats(); ++from) {
      for (size_t to = 0; to < ways.seats(); ++to) {
        if (from == to) continue;
        for (int parts = 1; parts <= 4; ++parts) result.insert(ways.gb_per_s(topology, from, to) / parts);
      }
    }
  }
  constexpr size_t kMost = 16;
  std::vector<double> list(result.begin(), result.end());
  if (list.size() > kMost) list.resize(kMost);
  return list;
}

}  // namespace

Rings find_rings(const Topology& topology) {
  Rings best;
  Ways ways(topology, Reach::kFast);
  if (ways.seats() < 2) return best;
  if (!ways.joins_all()) {
    best.reach = Reach::kAll;
    ways = Ways(topology, Reach::kAll);
    if (!ways.joins_all()) return best;
  }
  best.bound_gb_per_s = bus_bound_gb_per_s(topology, best.reach);
  for (const double quantum : quanta(topology, ways, best.reach)) {
    Packing packing(topology, ways, quantum);
    for (int beginning = 0; beginning < kBeginnings && packing.tries() < kAllTries; ++beginning) {
      std::vector<Order> rings = packing.pack(static_cast<uint32_t>(beginning), beginning % 2 == 0);
      if (quantum * static_cast<double>(rings.size()) > best.gb_per_s() * kSame) {
        best.orders = std::move(rings);
        best.ring_gb_per_s = quantum;
      }
      if (best.gb_per_s() * kSame >= best.bound_gb_per_s) return best;
    }
  }
  return best;
}

}  // namespace hocket::topology
