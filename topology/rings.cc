// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/rings.h"

#include <algorithm>
#include <random>

#include "topology/room.h"

namespace hocket::topology {
namespace {

constexpr size_t kMostRings = 64;
constexpr int kBeginnings = 400;
constexpr int kMostTries = 4000;          // of hops, in one ring
constexpr int64_t kAllTries = 3'000'000;  // in all
constexpr size_t kMostQuanta = 16;

using Order = std::vector<int32_t>;

// One packing of rings that carry `quantum` each.
class Packing {
 public:
  Packing(const Topology& topology, const Ways& ways, double quantum)
      : topology_(topology), ways_(ways), quantum_(quantum), room_(topology, ways) {
    for (size_t seat = 0; seat < ways.seats(); ++seat) neighbours_.push_back(sorted_neighbours(seat));
  }

  // `both`: each ring comes with its reverse where that is free too.
  std::vector<Order> pack(uint32_t seed, bool both) {
    random_.seed(seed);
    room_.empty(quantum_);
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

  bool take_all(const Order& ring) {
    for (size_t i = 0; i < ring.size(); ++i) {
      if (room_.take(ring[i], ring[(i + 1) % ring.size()])) continue;
      while (i-- > 0) room_.give_back(ring[i], ring[i + 1]);
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

  // The nearest ones first, those with most room before others, chance decides.
  Order candidates(int32_t here) {
    Order result;
    for (const int32_t next : neighbours_[static_cast<size_t>(here)]) {
      if (!visited_[static_cast<size_t>(next)] && room_.left(here, next) > 0) result.push_back(next);
    }
    std::ranges::shuffle(result, random_);
    std::ranges::stable_sort(result, {}, [&](int32_t next) {
      return std::pair(ways_.latency_us(topology_, static_cast<size_t>(here), static_cast<size_t>(next)),
                       -room_.left(here, next));
    });
    return result;
  }

  bool extend() {
    const int32_t here = ring_.back();
    if (ring_.size() == ways_.seats()) return room_.take(here, 0);
    for (const int32_t next : candidates(here)) {
      ++all_tries_;
      if (++tries_ > kMostTries) return false;
      if (!room_.take(here, next)) continue;
      ring_.push_back(next);
      visited_[static_cast<size_t>(next)] = true;
      if (extend()) return true;
      visited_[static_cast<size_t>(next)] = false;
      ring_.pop_back();
      room_.give_back(here, next);
    }
    return false;
  }

  const Topology& topology_;
  const Ways& ways_;
  const double quantum_;
  Room room_;
  std::vector<Order> neighbours_;
  std::mt19937 random_;
  Order ring_;
  std::vector<bool> visited_;
  int tries_ = 0;
  int64_t all_tries_ = 0;
};

}  // namespace

Rings find_rings(const Topology& topology) {
  const Roads roads = roads_of(topology);
  Rings best;
  best.reach = roads.reach;
  best.bound_gb_per_s = roads.bound_gb_per_s;
  if (!roads.joins_all) return best;
  const std::vector<int> parts = best.reach == Reach::kFast ? std::vector{1, 2} : std::vector{1, 2, 3, 4};
  for (const double quantum : quanta(topology, roads, parts, kMostQuanta)) {
    Packing packing(topology, roads.ways, quantum);
    for (int beginning = 0; beginning < kBeginnings && packing.tries() < kAllTries; ++beginning) {
      std::vector<Order> rings = packing.pack(static_cast<uint32_t>(beginning), beginning % 2 == 0);
      if (quantum * static_cast<double>(rings.size()) > best.gb_per_s() * kSameRate) {
        best.orders = std::move(rings);
        best.ring_gb_per_s = quantum;
      }
      if (best.gb_per_s() * kSameRate >= best.bound_gb_per_s) return best;
    }
  }
  return best;
}

}  // namespace hocket::topology
