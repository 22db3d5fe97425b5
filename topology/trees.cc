// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/trees.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

#include "topology/room.h"

namespace hocket::topology {
namespace {

constexpr int kBeginnings = 50;
// Trees of each width have their share of these; until some have been found, each width is tried once at least.
constexpr int64_t kLooks = 20'000'000;         // at pairs of seats
constexpr int64_t kMostLooks = 1'000'000'000;  // whatever has been found: of 1,024 seats a few trees
constexpr int64_t kLinkLooks = 500'000'000;    // at the links between them
constexpr size_t kMostQuanta = 24;

using Parents = std::vector<int32_t>;

// How many trees may still go between each two seats, up and down. A tree that grows looks at all pairs for each seat
// that joins it: what links have left is looked up when it changes, not at each look.
class Between {
 public:
  Between(const Topology& topology, const Ways& ways)
      : room_(topology, ways), ways_(ways), seats_(ways.seats()), left_(seats_ * seats_), ends_(count_users(topology)) {
    users_.resize(ends_.back());
    for_each_use([&](size_t link, size_t pair) { users_[--ends_[link]] = static_cast<uint32_t>(pair); });
  }

  // All links are free again, and hold as many quanta as their rate allows.
  void empty(double quantum) {
    room_.empty(quantum);
    for (size_t one = 0; one < seats_; ++one) {
      for (size_t other = 0; other < seats_; ++other) {
        const auto a = static_cast<int32_t>(one);
        const auto b = static_cast<int32_t>(other);
        left_[one * seats_ + other] = std::min(room_.left(a, b), room_.left(b, a));
      }
    }
    looks_ += static_cast<int64_t>(2 * ways_.links());
  }

  int left(int32_t one, int32_t other) const {
    return left_[static_cast<size_t>(one) * seats_ + static_cast<size_t>(other)];
  }

  void take(int32_t one, int32_t other) {
    for (const auto& [from, to] : {std::pair{one, other}, std::pair{other, one}}) {
      if (!room_.take(from, to)) continue;
      for (const int32_t link : ways_.way(static_cast<size_t>(from), static_cast<size_t>(to))) lower(link);
    }
  }

  int64_t looks() const { return looks_; }  // at links, and at the pairs that use one

 private:
  // Calls function(link, pair) for both orders of each two seats.
  template <typename Function>
  void for_each_use(Function function) const {
    for (size_t from = 0; from < seats_; ++from) {
      for (size_t to = 0; to < seats_; ++to) {
        for (const int32_t link : ways_.way(from, to)) {
          function(static_cast<size_t>(link), from * seats_ + to);
        }
      }
    }
  }

  // Where each link's users will end, and one past the last: they are put in from there on downwards.
  std::vector<size_t> count_users(const Topology& topology) const {
    std::vector<size_t> ends(topology.links().size() + 1);
    for_each_use([&](size_t link, size_t) { ++ends[link]; });
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    return ends;
  }

  void lower(int32_t link) {
    const auto place = static_cast<size_t>(link);
    const int free = room_.left_on(link);
    for (size_t use = ends_[place]; use < ends_[place + 1]; ++use) {
      const size_t pair = users_[use];
      for (const size_t order : {pair, pair % seats_ * seats_ + pair / seats_})
        left_[order] = std::min(left_[order], free);
    }
    looks_ += static_cast<int64_t>(ends_[place + 1] - ends_[place]);
  }

  Room room_;
  const Ways& ways_;
  size_t seats_;
  std::vector<int> left_;        // by pair, in both orders
  std::vector<size_t> ends_;     // by link: where its users begin, which is where the link's before it end
  std::vector<uint32_t> users_;  // pairs, by link
  int64_t looks_ = 0;
};

// One packing of trees that carry `quantum` each.
class Packing {
 public:
  Packing(const Topology& topology, const Ways& ways) : between_(topology, ways), seats_(ways.seats()) {
    for (size_t from = 0; from < seats_; ++from) {
      for (size_t to = 0; to < seats_; ++to) latency_.push_back(ways.latency_us(topology, from, to));
    }
  }

  std::vector<Parents> pack(uint32_t seed, double quantum) {
    random_.seed(seed);
    between_.empty(quantum);
    std::vector<Parents> trees;
    while (trees.size() < kMaxTrees && (trees.empty() || !is_tired()) && grow()) trees.push_back(parents_);
    return trees;
  }

  // So many parts of all looks, of which there are `parts`.
  void allow(int64_t part, int64_t parts) {
    most_looks_ = kLooks / parts * part;
    most_link_looks_ = kLinkLooks / parts * part;
  }
  int64_t looks() const { return looks_; }
  bool is_exhausted() const { return looks_ >= kMostLooks; }
  bool is_tired() const { return looks_ >= most_looks_ || between_.looks() >= most_link_looks_; }

 private:
  int room(int32_t one, int32_t other) {
    ++looks_;
    return between_.left(one, other);
  }

  // -1: one that no tree can reach any more, so that none need be begun.
  int32_t roomiest_seat() {
    int32_t best = 0;
    std::pair<int64_t, uint32_t> most{-1, 0};
    for (int32_t seat = 0; seat < seats(); ++seat) {
      int64_t sum = 0;
      for (int32_t other = 0; other < seats(); ++other) sum += other == seat ? 0 : room(seat, other);
      if (sum == 0) return -1;
      const std::pair<int64_t, uint32_t> here{sum, random_()};
      if (here > most) std::tie(most, best) = std::pair(here, seat);
    }
    return best;
  }

  // From the root outwards, one seat after the other; false: some seat cannot be reached any more.
  bool grow() {
    const int32_t root = roomiest_seat();
    if (root < 0) return false;
    parents_.assign(seats_, -1);
    depth_.assign(seats_, 0);
    parents_[static_cast<size_t>(root)] = root;
    for (size_t joined = 1; joined < seats_; ++joined) {
      const auto [parent, child] = best_edge();
      if (parent < 0) return false;
      between_.take(parent, child);
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

  Between between_;
  size_t seats_;
  std::vector<double> latency_;
  std::mt19937 random_;
  Parents parents_;
  std::vector<int> depth_;
  int64_t looks_ = 0;
  int64_t most_looks_ = 0;
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
    packing.allow(++width, std::ssize(widths));
    for (uint32_t beginning = 0; beginning < kBeginnings; ++beginning) {
      const bool may_rest = beginning > 0 || !best.parents.empty() || packing.is_exhausted();
      if (packing.is_tired() && may_rest) break;
      std::vector<Parents> trees = packing.pack(beginning, quantum);
      best.looks = packing.looks();
      if (quantum * static_cast<double>(trees.size()) <= best.gb_per_s() * kSameRate) continue;
      best.parents = std::move(trees);
      best.tree_gb_per_s = quantum;
      if (best.bus_gb_per_s() * kSameRate >= best.bound_gb_per_s) return best;
    }
  }
  return best;
}

}  // namespace hocket::topology
