// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// An exact sum: any plan runs on accumulators (kernels/accumulators.h) instead of the caller's floats. They take 8 to
// 34 times the room, so the call runs in pieces, each an execution of its own. A piece is a window of every chunk; it
// is extended into memory of ours and rounded from there.
#pragma once

#include <cstddef>

#include "execute/execution.h"

namespace hocket {

class ExactPieces {
 public:
  // Bytes of one buffer's piece, which a choice of algorithm has to do with.
  static constexpr size_t kPieceBytes = size_t{1} << 20;
  // Memory that a call on floats needs.
  static size_t memory_bytes(const Call& call);

  // Takes over a call on the caller's buffers, which are as they are in no window, and begins with its first piece.
  // The memory is aligned to 64 bytes.
  void begin(const Call& call, std::byte* memory);
  // The call on the piece at hand. None is longer than the first.
  Call& call() { return staged_; }
  // Rounds what came of the piece, and goes to the next. False: that was the last.
  bool next();

 private:
  void load();
  void store() const;
  Window window() const { return {piece_ * length_, length_}; }

  const Call* floats_ = nullptr;
  Call staged_;
  std::byte* send_memory_ = nullptr;
  std::byte* recv_memory_ = nullptr;
  size_t length_ = 0;  // elements of a chunk in a piece
  size_t piece_ = 0;
  size_t pieces_ = 0;
};

}  // namespace hocket
