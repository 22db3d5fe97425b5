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
constexpr int kMostTries = 4000;             // of hops, in one ring
constexpr int64_t kAllTries = 3'000'000;     // in all, with rings of one width
constexpr int64_t kLinkLooks = 500'000'000;  // at the links between seats; rings of each width have their share
constexpr size_t kMostQuanta = 16;

using Order = std::vector<int32_t>;

// One packing of rings that carry `quantum` each.
class Packing {
 public:
  Packing(const Topology& topology, const Ways& ways) : seats_(ways.seats()), room_(topology, ways) {
    for (size_t from = 0; from < seats_; ++from) {
      for (size_t to = 0; to < seats_; ++to) latency_.push_back(ways.latency_us(topology, from, to));
    }
    for (size_t seat = 0; seat < seats_; ++seat) neighbours_.push_back(sorted_neighbours(ways, seat));
  }

  void begin(double quantum, int64_t most_looks) {
    quantum_ = quantum;
    most_looks_ = most_looks;
    all_tries_ = 0;
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

  bool is_tired() const { return all_tries_ >= kAllTries || has_looked_enough(); }
  bool has_looked_enough() const { return looks_ >= most_looks_; }

 private:
  // Nearest first; the random part of the order comes later, among equals.
  std::vector<int32_t> sorted_neighbours(const Ways& ways, size_t seat) const {
    std::vector<int32_t> result;
    for (size_t other = 0; other < seats_; ++other) {
      if (other != seat && !ways.way(seat, other).empty()) result.push_back(static_cast<int32_t>(other));
    }
    std::ranges::stable_sort(result, {}, [&](int32_t other) { return latency(seat, static_cast<size_t>(other)); });
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
    visited_.assign(seats_, false);
    visited_[0] = true;
    return extend();
  }

  // The nearest ones first, those with most room before others, chance decides.
  Order candidates(int32_t here) {
    Order result;
    for (const int32_t next : neighbours_[static_cast<size_t>(here)]) {
      if (visited_[static_cast<size_t>(next)]) continue;
      looks_ += room_.looks(here, next);
      room_at_[static_cast<size_t>(next)] = room_.left(here, next);
      if (room_at_[static_cast<size_t>(next)] > 0) result.push_back(next);
    }
    std::ranges::shuffle(result, random_);
    std::ranges::stable_sort(result, {}, [&](int32_t next) {
      const auto place = static_cast<size_t>(next);
      return std::pair(latency(static_cast<size_t>(here), place), -room_at_[place]);
    });
    return result;
  }

  bool extend() {
    const int32_t here = ring_.back();
    if (ring_.size() == seats_) return room_.take(here, 0);
    for (const int32_t next : candidates(here)) {
      ++all_tries_;
      if (++tries_ > kMostTries || has_looked_enough()) return false;
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

  double latency(size_t from, size_t to) const { return latency_[from * seats_ + to]; }

  const size_t seats_;
  Room room_;
  double quantum_ = 0;
  std::vector<double> latency_;
  std::vector<Order> neighbours_;
  std::mt19937 random_;
  Order ring_;
  std::vector<bool> visited_;
  std::vector<int> room_at_ = std::vector<int>(seats_);  // from where the ring has come to
  int tries_ = 0;
  int64_t all_tries_ = 0;
  int64_t looks_ = 0;
  int64_t most_looks_ = 0;
};

}  // namespace

Rings find_rings(const Topology& topology) {
  const Roads roads = roads_of(topology);
  Rings best;
  best.reach = roads.reach;
  best.too_large = roads.too_large;
  best.bound_gb_per_s = roads.bound_gb_per_s;
  if (!roads.joins_all) return best;
  const std::vector<int> parts = best.reach == Reach::kFast ? std::vector{1, 2} : std::vector{1, 2, 3, 4};
  Packing packing(topology, roads.ways);
  const std::vector<double> widths = quanta(topology, roads, parts, kMostQuanta);
  int64_t width = 0;
  for (const double quantum : widths) {
    packing.begin(quantum, kLinkLooks / std::ssize(widths) * ++width);
    for (int beginning = 0; beginning < kBeginnings && !packing.is_tired(); ++beginning) {
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
