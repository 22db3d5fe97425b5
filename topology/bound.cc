// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/bound.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace hocket::topology {
namespace {

// Greatest flow by shortest ways (Dinic). Ways may be as long as a file makes them: nothing here calls itself.
class Flow {
 public:
  explicit Flow(size_t vertices) : first_(vertices) {}

  size_t add(size_t from, size_t to, double capacity) {
    first_[from].push_back(arcs_.size());
    arcs_.push_back({to, capacity, capacity});
    first_[to].push_back(arcs_.size());
    arcs_.push_back({from, 0, 0});
    return arcs_.size() - 2;
  }
  void change(size_t arc, double capacity) { arcs_[arc].capacity = capacity; }

  // Nothing where that takes too many looks.
  std::optional<double> greatest(size_t source, size_t sink) {
    for (Arc& arc : arcs_) arc.left = arc.capacity;
    looks_ += arcs_.size();
    double sum = 0;
    while (spread(source, sink)) {
      next_.assign(first_.size(), 0);
      for (double pushed = 0; (pushed = push(source, sink)) > 0;) sum += pushed;
      if (looks_ > kMostLooks) return std::nullopt;
    }
    return sum;
  }

 private:
  struct Arc {
    size_t to = 0;
    double capacity = 0;
    double left = 0;
  };
  static constexpr double kNothing = 1e-9;
  static constexpr size_t kNone = SIZE_MAX;
  static constexpr size_t kMostLooks = 50'000'000;  // at arcs

  bool spread(size_t source, size_t sink) {
    distance_.assign(first_.size(), -1);
    distance_[source] = 0;
    std::vector<size_t> open{source};
    for (size_t i = 0; i < open.size() && distance_[sink] < 0; ++i) {
      looks_ += first_[open[i]].size();
      for (const size_t arc : first_[open[i]]) {
        const size_t to = arcs_[arc].to;
        if (arcs_[arc].left <= kNothing || distance_[to] >= 0) continue;
        distance_[to] = distance_[open[i]] + 1;
        open.push_back(to);
      }
    }
    return distance_[sink] >= 0;
  }

  // An arc that leads on, and has not led into a dead end before.
  size_t onward(size_t vertex) {
    for (size_t& i = next_[vertex]; i < first_[vertex].size(); ++i) {
      ++looks_;
      const Arc& arc = arcs_[first_[vertex][i]];
      if (arc.left > kNothing && distance_[arc.to] == distance_[vertex] + 1) return first_[vertex][i];
    }
    return kNone;
  }

  // Along one more way, which empties one of its arcs at least; 0: there is none, or there were too many looks.
  double push(size_t source, size_t sink) {
    way_.clear();
    for (size_t vertex = source; vertex != sink;) {
      if (looks_ > kMostLooks) return 0;
      const size_t arc = onward(vertex);
      if (arc != kNone) {
        way_.push_back(arc);
        vertex = arcs_[arc].to;
        continue;
      }
      if (way_.empty()) return 0;
      vertex = arcs_[way_.back() ^ 1].to;
      way_.pop_back();
      ++next_[vertex];
    }
    double amount = std::numeric_limits<double>::infinity();
    for (const size_t arc : way_) amount = std::min(amount, arcs_[arc].left);
    for (const size_t arc : way_) {
      arcs_[arc].left -= amount;
      arcs_[arc ^ 1].left += amount;
    }
    looks_ += 2 * way_.size();
    return amount;
  }

  std::vector<std::vector<size_t>> first_;
  std::vector<Arc> arcs_;
  std::vector<int> distance_;
  std::vector<size_t> next_;
  std::vector<size_t> way_;
  size_t looks_ = 0;
};

bool counts(const Link& link, Reach reach) { return reach == Reach::kAll || is_fast(link.kind); }

// Every seat is fed from one more vertex, and must be able to take what all are fed.
class Feeding {
 public:
  Feeding(const Topology& topology, Reach reach, const std::vector<int32_t>& seats)
      : seats_(seats), source_(topology.vertices().size()), flow_(source_ + 1) {
    for (const Link& link : topology.links()) {
      if (counts(link, reach)) flow_.add(static_cast<size_t>(link.from), static_cast<size_t>(link.to), link.gb_per_s);
    }
    for (const int32_t seat : seats) fed_.push_back(flow_.add(source_, static_cast<size_t>(seat), 0));
  }

  // Nothing where that takes too long to find out.
  std::optional<bool> suffices(double rate) {
    for (const size_t arc : fed_) flow_.change(arc, rate);
    const double wanted = rate * static_cast<double>(seats_.size());
    for (const int32_t sink : seats_) {
      const std::optional<double> taken = flow_.greatest(source_, static_cast<size_t>(sink));
      if (!taken.has_value()) return std::nullopt;
      if (*taken < wanted * (1 - 1e-6)) return false;
    }
    return true;
  }

 private:
  const std::vector<int32_t>& seats_;
  size_t source_;
  Flow flow_;
  std::vector<size_t> fed_;  // arcs, by seat
};

// What the narrowest seat takes in or gives out.
double port_bound(const Topology& topology, Reach reach, const std::vector<int32_t>& seats) {
  std::vector<double> in(topology.vertices().size(), 0);
  std::vector<double> out(topology.vertices().size(), 0);
  for (const Link& link : topology.links()) {
    if (!counts(link, reach)) continue;
    out[static_cast<size_t>(link.from)] += link.gb_per_s;
    in[static_cast<size_t>(link.to)] += link.gb_per_s;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const int32_t seat : seats)
    least = std::min({least, in[static_cast<size_t>(seat)], out[static_cast<size_t>(seat)]});
  return least;
}

}  // namespace

double bus_bound_gb_per_s(const Topology& topology, Reach reach) {
  const std::vector<int32_t> seats = topology.seats();
  if (seats.size() < 2) return 0;
  const double ports = port_bound(topology, reach, seats);
  if (seats.size() > kMaxBoundSeats || ports <= 0) return ports;
  const double others = static_cast<double>(seats.size()) - 1;
  double high = ports / others;
  Feeding feeding(topology, reach, seats);
  if (feeding.suffices(high).value_or(true)) return ports;
  double low = 0;
  for (int halvings = 0; halvings < 24; ++halvings) {
    const double middle = (low + high) / 2;
    const std::optional<bool> suffices = feeding.suffices(middle);
    if (!suffices.has_value()) return high * others;
    (*suffices ? low : high) = middle;
  }
  return low * others;
}

}  // namespace hocket::topology
