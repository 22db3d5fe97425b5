// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The thread blocks of one GPU while MSCCL's XML is written: each has at most one peer to send to and one to receive
// from, and a step of one waits for at most one step of another.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/holdings.h"
#include "plan/msccl_file.h"
#include "plan/plan.h"

namespace hocket::msccl {

inline constexpr Rank kNobody = -1;

using plan::Run;

// A step of the format, before its thread block is known.
struct Move {
  Action action = Action::kNothing;
  Run source;
  Run target;
  Rank recv = kNobody;
  Rank send = kNobody;
};

class ThreadBlocks {
 public:
  struct Position {
    size_t block = 0;
    size_t step = 0;
  };
  static constexpr size_t kNone = SIZE_MAX;

  // The block of this lane that has these ends or can have them, which it then has: each end belongs to one block only.
  // With two ends: kNone if they belong to different ones.
  size_t with_ends(size_t lane, Rank send, Rank recv);
  // A new one without ends.
  size_t open(size_t lane);
  // Appends a move, which waits for all of `waits`.
  Position put(size_t block, const Move& move, std::vector<Position> waits);
  std::string text() const;

 private:
  struct Written {
    Move move;
    std::optional<Position> awaited;
    bool is_awaited = false;
  };
  struct Block {
    Rank send = kNobody;
    Rank recv = kNobody;
    size_t lane = 0;
    std::vector<Written> steps;
  };

  void append(size_t block, const Move& move, const std::optional<Position>& awaited);
  size_t taken(size_t block, Rank send, Rank recv);

  std::vector<Block> blocks_;
};

}  // namespace hocket::msccl
