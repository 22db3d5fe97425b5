// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One plan as a part of another: some of the ranks do it with some of the chunks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace hocket::plan {

// Where a buffer of the part lies: its chunk c is the `block` chunks from base + c * block on.
struct Lying {
  Buffer buffer = Buffer::kRecv;
  int32_t base = 0;
};

struct Embedding {
  std::span<const Rank> members;  // who the part's ranks are
  Lying send;
  Lying recv;
  Lying scratch;
  int32_t block = 1;
  bool first = false;  // keep these marks, or leave them out because another part has them
  bool last = false;
  size_t first_lane = 0;
};

// Appends the steps of `part` to the lanes of `plan`. Regions of the part must not wrap around.
void embed(Plan& plan, const Plan& part, const Embedding& embedding);

// Parts that follow each other in some lanes of a plan: each lane begins a part when all of them have ended the one
// before. Make one before the steps of a part are added, and call order() after.
class PartBegin {
 public:
  PartBegin(Plan& plan, size_t first_lane, size_t lanes);
  void order();

 private:
  Plan& plan_;
  size_t first_lane_;
  std::vector<size_t> done_;  // steps of each of the lanes
};

}  // namespace hocket::plan
