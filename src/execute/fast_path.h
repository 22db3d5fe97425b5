// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The fast path of a call that is made again and again. What an execution works out anew each time (layouts, pipe ends,
// kernel arguments) is bound once; then each slice is a look at its messages, one kernel and one commit. Whatever is
// not there in time, or not as it should be, is left to an execution, which goes on from the slice that the fast path
// has reached.
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
  FastPath(FastPath&&) = default;
  FastPath& operator=(FastPath&&) = default;
  // Binds a call for all later ones of its kind, whose buffers may be others. Empty when it is none for it: of many or
  // long slices, or of several that leave from where they lie; one that fills the caches; coded, in several lanes, with
  // scratch memory, steps on several chunks, a scalar, or a user's operation. The pipe ends outlive this.
  FastPath(const Call& call, Pipes& pipes);

  bool bound() const { return !moves_.empty(); }
  bool is_cut() const { return moves_.size() > 1; }
  // Makes the slices in order, and looks whether all that was sent has left this process. For that, and for a message
  // or room that is not there, it waits a little, as `wait` does; null: not at all. True when the call is done;
  // otherwise the execution has to start from reached().
  bool run(const void* send, void* recv, uint32_t operation, const Wait* wait);
  size_t reached() const { return reached_; }

 private:
  // A message that a slice takes or sends, and where the address of its bytes goes.
  struct Arrival {
    ReceiveEnd* end;
    std::byte** address;
  };
  struct Departure {
    SendEnd* end;
    std::byte** address;
  };
  // What lies in a buffer of the caller's.
  struct Own {
    Buffer buffer;
    size_t offset;  // bytes
    std::byte** address;
  };
  // A slice.
  struct Move {
    std::vector<Arrival> arrivals;
    std::vector<Departure> departures;
    std::byte** landing = nullptr;   // its one message goes there as it is
    std::byte** lendable = nullptr;  // what may be lent of it lies there
    size_t bytes = 0;
    Combine work;
    CombineFunction kernel = nullptr;
  };

  Move bind(const Call& call, const SliceWalk& slice, Pipes& pipes);
  // Gives where its address is.
  std::byte** bind_place(const Call& call, const SliceWalk& slice, const Place& place);
  void rebase(const void* send, void* recv);
  bool may_copy(const Move& move) const;
  bool would_lend(const Move& move, Sender& pipe) const;
  // What a move does: takes its messages, reserves those that it sends, and, when its kernel has run, sends and
  // releases. False: it is the execution's turn.
  static bool take(Move& move, uint32_t operation, const Wait* wait);
  bool make_room(Move& move, const Wait* wait) const;
  static void pass_on(const Move& move, uint32_t operation);

  bool receives_ = false;  // Call::receives
  Lending lending_ = Lending::kNever;
  std::vector<Move> moves_;
  std::vector<std::byte*> addresses_;  // of all sources and destinations, which never move: works point there
  std::vector<Own> own_;
  std::vector<SendEnd*> senders_;
  const void* send_ = nullptr;  // where own_ lies now
  void* recv_ = nullptr;
  size_t reached_ = 0;
};

}  // namespace hocket
