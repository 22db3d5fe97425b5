// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Ways from one seat to another, as lists of links. A way passes no other seat: a GPU forwards nothing by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "topology/topology.h"

namespace hocket::topology {

// Links, by number, in order. Empty: there is no way.
using Way = std::vector<int32_t>;

enum class Reach : uint8_t {
  kFast,  // links between GPUs, and their switches
  kAll,
};

class Ways {
 public:
  Ways() = default;  // of no seats
  Ways(const Topology& topology, Reach reach);
  // Nothing where all ways together have more than so many links.
  static std::optional<Ways> within(const Topology& topology, Reach reach, size_t most_links);
  // Fast ways where two seats have one, else any: those that messages take.
  static std::optional<Ways> taken(const Topology& topology, size_t most_links);

  // By place in seats(): the way of least latency, and among these the widest.
  const Way& way(size_t from, size_t to) const { return ways_[from * seats_ + to]; }
  size_t seats() const { return seats_; }
  size_t links() const { return links_; }  // of all ways together
  // Every seat reaches every other, maybe over others.
  bool joins_all() const;
  double latency_us(const Topology& topology, size_t from, size_t to) const;
  double gb_per_s(const Topology& topology, size_t from, size_t to) const;

 private:
  bool fill(const Topology& topology, Reach reach, size_t most_links);

  size_t seats_ = 0;
  size_t links_ = 0;
  std::vector<Way> ways_;
};

bool is_fast(Link::Kind kind);

}  // namespace hocket::topology
