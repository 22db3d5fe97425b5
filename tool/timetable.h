// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What calls took, by algorithm, and how well the model says it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "choose/cut.h"
#include "choose/fit.h"

namespace hocket::tool {

class Timetable {
 public:
  struct Cell {
    Collective collective;
    int32_t ranks;
    int64_t bytes;
    auto operator<=>(const Cell&) const = default;
  };

  // `whole`: of a library that sends messages whole, not in slices.
  explicit Timetable(Medium medium, bool whole = false) : medium_(medium), whole_(whole) {}

  Medium medium() const { return medium_; }
  void set_medium(Medium medium) { medium_ = medium; }
  size_t max_message() const { return whole_ ? kWhole : longest_slice(medium_); }
  bool empty() const { return cells_.empty(); }
  void add(const Cell& cell, const std::string& algorithm, double microseconds);
  // "all_reduce,ring,128,1048576,1650.5": collective, algorithm, ranks, bytes, microseconds. False: it is no such line.
  bool add(const std::string& line);
  // All that was added, as such lines.
  std::string lines() const;

  // One of each algorithm and cell: the lower quartile of its times.
  std::vector<Sample> samples() const;
  // The fastest of each cell; neighbouring sizes with the same one become one entry.
  std::vector<MeasuredChoice> best() const;
  // A table for people: what was fastest, what the tuning's model, the library with this tuning and the library without
  // one would choose, and how far off the model is. `judge` says which is the fastest of a call: by the times that it
  // is timed by, too, it is the luckiest of many.
  std::string report(const Tuning& tuning, const Timetable& judge) const;

 private:
  using Times = std::map<std::string, std::vector<double>>;  // microseconds, by algorithm

  static Times::const_iterator fastest(const Times& times);
  // Where this has no time of what the judge says, or the judge none of the call: the fastest here.
  Times::const_iterator fastest(const Cell& cell, const Times& times, const Timetable& judge) const;
  // Of all times of both, as a share of ours, in the median.
  double difference(const Timetable& other) const;
  std::string choice(const Cell& cell, const Tuning& tuning) const;

  Medium medium_;
  bool whole_;
  std::map<Cell, Times> cells_;
};

}  // namespace hocket::tool
