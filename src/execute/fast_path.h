// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The fast path of a short call that is made again and again. What an execution works out anew each time
// (layouts, pipe ends, kernel arguments) is bound once; then each step is a look at its messages, one kernel and one
// commit. Whatever is not there in time, or not as it should be, is left to an execution, which goes on from the step
// that the fast path has reached.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "execute/execution.h"
#include "execute/wait.h"

namespace hocket {

class FastPath {
 public:
  FastPath() = default;
  // Binds a call for all later ones of its kind, whose buffers may be others. Empty when it is none for it: long,
  // coded, in several lanes, with scratch memory, a prologue, or a user's operation. The pipe ends outlive this.
  FastPath(const Call& call, Pipes& pipes);

  bool bound() const { return !moves_.empty(); }
  // Runs the steps in order. For a message that is not there it waits a little, as `wait` does; null: not at all. True
  // when the call is done; otherwise the execution has to start from reached().
  bool run(const void* send, void* recv, uint32_t operation, Wait* wait);
  size_t reached() const { return reached_; }

 private:
  // Memory of the caller, or one end of a pipe.
  template <typename End>
  struct Point {
    End* end = nullptr;           // null: memory
    std::byte* window = nullptr;  // of a peer; null: of the caller
    Buffer buffer = Buffer::kSend;
    size_t offset = 0;  // bytes
  };
  struct Move {
    std::vector<Point<ReceiveEnd>> sources;
    std::vector<Point<SendEnd>> destinations;
    size_t bytes = 0;
    Combine work;
  };
  struct Buffers {
    std::byte* send;
    std::byte* recv;
    template <typename End>
    std::byte* at(const Point<End>& point) const {
      if (point.window != nullptr) return point.window + point.offset;
      return (point.buffer == Buffer::kSend ? send : recv) + point.offset;
    }
  };

  static Move bind(const Call& call, const Step& step, Pipes& pipes);
  bool run_move(const Move& move, const Buffers& buffers, uint32_t operation, Wait* wait) const;
  const Message* await(const ReceiveEnd& end, size_t bytes, uint32_t operation, Wait* wait) const;
  static void combine_at(const Move& move, const std::byte* const* sources, std::byte* const* destinations);

  std::vector<Move> moves_;
  size_t reached_ = 0;
};

}  // namespace hocket
