// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/trees.h"

#include <algorithm>
#include <random>
#include <tuple>

#include "topology/room.h"

namespace hocket::topology {
namespace {

constexpr int kBeginnings = 50;
constexpr int64_t kAllLooks = 20'000'000;    // at pairs of seats
constexpr int64_t kLinkLooks = 500'000'000;  // at the links between them; trees of each width have their share
constexpr size_t kMostQuanta = 24;

using Parents = std::vector<int32_t>;

// One packing of trees that carry `quantum` each.
class Packing {
 public:
  Packing(const Topology& topology, const Ways& ways) : room_(topology, ways), seats_(ways.seats()) {
    for (size_t from = 0; from < seats_; ++from) {
      for (size_t to = 0; to < seats_; ++to) latency_.push_back(ways.latency_us(topology, from, to));
    }
  }

  std::vector<Parents> pack(uint32_t seed, double quantum) {
    random_.seed(seed);
    room_.empty(quantum);
    std::vector<Parents> trees;
    while (trees.size() < kMaxTrees && (trees.empty() || !is_tired()) && grow()) trees.push_back(parents_);
    return trees;
  }

  bool is_tired() const { return looks_ >= kAllLooks || link_looks_ >= most_link_looks_; }
  void allow(int64_t link_looks) { most_link_looks_ = link_looks; }

 private:
  // Up and down: both directions have room for so many.
  int room(int32_t one, int32_t other) {
    ++looks_;
    link_looks_ += room_.looks(one, other) + room_.looks(other, one);
    return std::min(room_.left(one, other), room_.left(other, one));
  }

  int32_t roomiest_seat() {
    int32_t best = 0;
    std::pair<int64_t, uint32_t> most{-1, 0};
    for (int32_t seat = 0; seat < seats(); ++seat) {
      int64_t sum = 0;
      for (int32_t other = 0; other < seats(); ++other) sum += other == seat ? 0 : room(seat, other);
      const std::pair<int64_t, uint32_t> here{sum, random_()};
      if (here > most) std::tie(most, best) = std::pair(here, seat);
    }
    return best;
  }

  // From the root outwards, one seat after the other; false: some seat cannot be reached any more.
  bool grow() {
    const int32_t root = roomiest_seat();
    parents_.assign(seats_, -1);
    depth_.assign(seats_, 0);
    parents_[static_cast<size_t>(root)] = root;
    for (size_t joined = 1; joined < seats_; ++joined) {
      const auto [parent, child] = best_edge();
      if (parent < 0) return false;
      room_.take(parent, child);
      room_.take(child, parent);
      parents_[static_cast<size_t>(child)] = parent;
      depth_[static_cast<size_t>(child)] = depth_[static_cast<size_t>(parent)] + 1;
    }
    return true;
  }

  // Near seats before far ones, those with most room first, then flat trees; chance decides the rest.
  std::pair<int32_t, int32_t> best_edge() {
    std::pair<int32_t, int32_t> best{-1, -1};
    std::tuple<double, int, int, uint32_t> least{};
    for (int32_t parent = 0; parent < seats(); ++parent) {
      if (parents_[static_cast<size_t>(parent)] < 0) continue;
      for (int32_t child = 0; child < seats(); ++child) {
        if (parents_[static_cast<size_t>(child)] >= 0) continue;
        const int free = room(parent, child);
        if (free < 1) continue;
        const std::tuple<double, int, int, uint32_t> cost{latency(parent, child), -free,
                                                          depth_[static_cast<size_t>(parent)], random_()};
        if (best.first < 0 || cost < least) std::tie(least, best) = std::pair(cost, std::pair(parent, child));
      }
    }
    return best;
  }

  int32_t seats() const { return static_cast<int32_t>(seats_); }
  double latency(int32_t from, int32_t to) const {
    return latency_[static_cast<size_t>(from) * seats_ + static_cast<size_t>(to)];
  }

  Room room_;
  size_t seats_;
  std::vector<double> latency_;
  std::mt19937 random_;
  Parents parents_;
  std::vector<int> depth_;
  int64_t looks_ = 0;
  int64_t link_looks_ = 0;
  int64_t most_link_looks_ = 0;
};

// n - 1 edges of a tree share what a switch's ports carry, or a seat's wires.
std::vector<int> parts_of(size_t seats) {
  const auto edges = static_cast<int>(seats) - 1;
  return {1, 2, 3, 4, edges, 2 * edges};
}

double bus_share(size_t seats) { return 2 * (static_cast<double>(seats) - 1) / static_cast<double>(seats); }

}  // namespace

double Trees::bus_gb_per_s() const { return parents.empty() ? 0 : gb_per_s() * bus_share(parents[0].size()); }

Trees find_trees(const Topology& topology) {
  const Roads roads = roads_of(topology);
  Trees best;
  best.reach = roads.reach;
  best.too_large = roads.too_large;
  best.bound_gb_per_s = roads.bound_gb_per_s;
  if (!roads.joins_all) return best;
  Packing packing(topology, roads.ways);
  const std::vector<double> widths = quanta(topology, roads, parts_of(roads.ways.seats()), kMostQuanta);
  int64_t width = 0;
  for (const double quantum : widths) {
    packing.allow(kLinkLooks / std::ssize(widths) * ++width);
    for (uint32_t beginning = 0; beginning < kBeginnings && !packing.is_tired(); ++beginning) {
      std::vector<Parents> trees = packing.pack(beginning, quantum);
      if (quantum * static_cast<double>(trees.size()) <= best.gb_per_s() * kSameRate) continue;
      best.parents = std::move(trees);
      best.tree_gb_per_s = quantum;
      if (best.bus_gb_per_s() * kSameRate >= best.bound_gb_per_s) return best;
    }
  }
  return best;
}

}  // namespace hocket::topology
