// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Whose contributions each chunk holds while an algorithm from outside is run on sets of ranks. Formats do not tell
// where a contribution enters a reduction nor where a result is complete, and let an algorithm in place write its
// input; this finds out, and knows a chunk in place by what has been written already. Knows no format.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket::plan {

// Consecutive chunks of one buffer.
struct Run {
  Buffer buffer = Buffer::kSend;
  int32_t first = 0;
  int32_t count = 1;
  friend bool operator==(const Run&, const Run&) = default;
};

class Holdings {
 public:
  struct Value {
    std::vector<bool> ranks;  // empty: nothing yet
    bool complete = false;    // a reduction's result that has met its mark
  };
  using Values = std::vector<Value>;

  // Whether the plans' chunks are few enough, and those of all ranks as many; and whether it is known what in place
  // means for the collective. The failure is a reason.
  static Status check(std::span<const Plan> plans, bool in_place);

  // `plans` of all ranks, whose heads tell what there is. In place: the format's input and output are one.
  Holdings(std::span<const Plan> plans, bool in_place);

  // Where `rank` reads a run; its contributions join those in `values`, if there are any. The failure is a reason.
  Result<Place> read(Rank rank, const Run& run, Values& values) const;
  // Whether the values are a reduction's results, as soon as they are.
  Result<bool> complete(Values& values) const;
  // Where `rank` writes a run.
  Result<Place> write(Rank rank, const Run& run, const Values& values);
  // In place, a rank's own block need not be written at all: otherwise it must.
  void keep_own_blocks(std::span<Plan> plans) const;

 private:
  bool reduces() const;
  Result<Run> held_in(Rank rank, const Run& run) const;
  const Values& memory(Rank rank, Buffer buffer) const;

  Collective collective_;
  bool in_place_;
  int32_t own_chunks_;  // of a rank's block
  std::vector<std::array<Values, 3>> memories_;
};

}  // namespace hocket::plan
