// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What links have left while rings or trees that carry a quantum each are packed onto them.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/topology.h"
#include "topology/ways.h"

namespace hocket::topology {

class Room {
 public:
  Room(const Topology& topology, const Ways& ways) : topology_(topology), ways_(ways) {}

  // All links are free again, and hold as many quanta as their rate allows.
  void empty(double quantum);
  // How many more may go from one seat to another; none where there is no way.
  int left(int32_t from, int32_t to) const;
  int left_on(int32_t link) const { return left_[static_cast<size_t>(link)]; }
  // What left() looks at, in links.
  int64_t looks(int32_t from, int32_t to) const;
  // All or nothing; a way never has a link twice.
  bool take(int32_t from, int32_t to);
  void give_back(int32_t from, int32_t to);

 private:
  const Topology& topology_;
  const Ways& ways_;
  std::vector<int> left_;  // by link
};

// Equal but for rounding.
inline constexpr double kSameRate = 1.000001;

// Topologies of more seats are not searched; nor where looking from every seat along every link is more than so much,
// or the ways between seats have more links together, or more when one tree is grown: along each way for every seat.
inline constexpr size_t kMaxSearchedSeats = 1024;
inline constexpr size_t kMaxLooks = size_t{1} << 26;
inline constexpr size_t kMaxWayLinks = size_t{1} << 24;
inline constexpr size_t kMaxGrowing = size_t{1} << 31;

// Fast ways where these join all seats, else any.
struct Roads {
  Reach reach = Reach::kFast;
  Ways ways;
  bool too_large = false;     // not looked at
  bool joins_all = false;     // several seats, and each reaches every other one: there is something to search
  double bound_gb_per_s = 0;  // no schedule has more bus bandwidth over them
};
Roads roads_of(const Topology& topology);

// What one ring or tree may carry, most first: a wire of a fast link or a part of it; over other links the width of a
// way, or a part of it. At most `most` of them.
std::vector<double> quanta(const Topology& topology, const Roads& roads, const std::vector<int>& parts, size_t most);

}  // namespace hocket::topology
