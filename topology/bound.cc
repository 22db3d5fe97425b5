// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/bound.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace hocket::topology {
namespace {

// Greatest flow by shortest ways (Dinic).
class Flow {
 public:
  explicit Flow(size_t vertices) : first_(vertices) {}

  void add(size_t from, size_t to, double capacity) {
    first_[from].push_back(arcs_.size());
    arcs_.push_back({to, capacity});
    first_[to].push_back(arcs_.size());
    arcs_.push_back({from, 0});
  }

  double greatest(size_t source, size_t sink) {
    double sum = 0;
    while (spread(source, sink)) {
      next_.assign(first_.size(), 0);
      for (double pushed = 0; (pushed = push(source, sink, std::numeric_limits<double>::infinity())) > 0;)
        sum += pushed;
    }
    return sum;
  }

 private:
  struct Arc {
    size_t to = 0;
    double capacity = 0;
  };
  static constexpr double kNothing = 1e-9;

  bool spread(size_t source, size_t sink) {
    distance_.assign(first_.size(), -1);
    distance_[source] = 0;
    std::vector<size_t> open{source};
    for (size_t i = 0; i < open.size(); ++i) {
      for (const size_t arc : first_[open[i]]) {
        const size_t to = arcs_[arc].to;
        if (arcs_[arc].capacity <= kNothing || distance_[to] >= 0) continue;
        distance_[to] = distance_[open[i]] + 1;
        open.push_back(to);
      }
    }
    return distance_[sink] >= 0;
  }

  double push(size_t vertex, size_t sink, double amount) {
    if (vertex == sink) return amount;
    for (size_t& i = next_[vertex]; i < first_[vertex].size(); ++i) {
      const size_t arc = first_[vertex][i];
      Arc& forward = arcs_[arc];
      if (forward.capacity <= kNothing || distance_[forward.to] != distance_[vertex] + 1) continue;
      const double pushed = push(forward.to, sink, std::min(amount, forward.capacity));
      if (pushed <= 0) continue;
      forward.capacity -= pushed;
      arcs_[arc ^ 1].capacity += pushed;
      return pushed;
    }
    return 0;
  }

  std::vector<std::vector<size_t>> first_;
  std::vector<Arc> arcs_;
  std::vector<int> distance_;
  std::vector<size_t> next_;
};

bool counts(const Link& link, Reach reach) { return reach == Reach::kAll || is_fast(link.kind); }

bool can_feed(const Topology& topology, Reach reach, const std::vector<int32_t>& seats, double rate) {
  const size_t source = topology.vertices().size();
  for (const int32_t sink : seats) {
    Flow flow(source + 1);
    for (const Link& link : topology.links()) {
      if (counts(link, reach)) flow.add(static_cast<size_t>(link.from), static_cast<size_t>(link.to), link.gb_per_s);
    }
    for (const int32_t seat : seats) flow.add(source, static_cast<size_t>(seat), rate);
    const double wanted = rate * static_cast<double>(seats.size());
    if (flow.greatest(source, static_cast<size_t>(sink)) < wanted * (1 - 1e-6)) return false;
  }
  return true;
}

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
  if (can_feed(topology, reach, seats, high)) return ports;
  double low = 0;
  for (int halvings = 0; halvings < 24; ++halvings) {
    const double middle = (low + high) / 2;
    (can_feed(topology, reach, seats, middle) ? low : high) = middle;
  }
  return low * others;
}

}  // namespace hocket::topology
