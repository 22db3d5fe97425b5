// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans of all ranks, written operation by operation in an order in which they could happen: a step waits for those of
// other lanes of its rank that touched the same chunks before. Knows no format.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "plan/plan.h"

namespace hocket::plan {

class Weave {
 public:
  // `plans`: heads and empty lanes of all ranks.
  explicit Weave(std::vector<Plan> plans);

  void append(Rank rank, int32_t lane, Step step);
  // Scratch is the same memory in every pass: there, no lane begins the next one before all have ended theirs.
  std::vector<Plan> end();

 private:
  using Lanes = std::map<int32_t, int32_t>;  // the last step of each
  struct Cell {
    Lanes written;
    Lanes read;  // since then
  };

  Cell& cell(Rank rank, Buffer buffer, int32_t chunk);
  void note(Rank rank, int32_t lane, const Step& step);
  std::vector<After> waits(Rank rank, int32_t lane, const Step& step);

  std::vector<Plan> plans_;
  std::vector<std::array<std::vector<Cell>, 2>> cells_;  // of each rank: the caller's, scratch
};

}  // namespace hocket::plan
