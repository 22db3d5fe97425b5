// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The host executor: one call's plan, run on real buffers as a resumable state machine. advance() never blocks. It
// knows pipes and kernels; it knows no transport, no collective's meaning, no thread.
//
// A call runs in passes. A pass is the whole plan on a window of every chunk, so that one plan serves every size with
// bounded scratch. Within a pass the message of a step travels as a train of slices. A slice of a step runs only when
// all its sources can be peeked and all its destinations reserved; until then it has no side effect that a peer sees.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "codec/codec.h"
#include "execute/coded.h"
#include "execute/layout.h"
#include "execute/slice_walk.h"
#include "kernels/kernels.h"
#include "plan/plan.h"
#include "transports/pipe.h"

namespace hocket {

// Where the end of a pipe is found.
struct SendEnd {
  Sender* pipe = nullptr;
};
struct ReceiveEnd {
  Receiver* pipe = nullptr;
};

// The pipe ends of one communicator and class. An end whose pipe is null is not open yet.
class Pipes {
 public:
  virtual ~Pipes() = default;
  virtual SendEnd& to(Rank peer, int lane) = 0;
  virtual ReceiveEnd& from(Rank peer, int lane) = 0;
};

// A lane waits at our end of a pipe: for room, or for a message. Or the call does: for word that all has been received.
struct PipeWait {
  Rank peer = -1;
  int lane = 0;
  bool sending = false;
  uint32_t messages = 0;  // that have passed our end
  uint64_t arrived = 0;   // Receiver::arrived()
  bool all_sent = false;
};

// One of the two buffers as every rank has it, where it lies in a window.
struct PeerBuffers {
  std::span<std::byte* const> windows;  // by rank: where the window begins, in our memory
  size_t offset = 0;                    // of the buffer, in bytes
  std::byte* of(Rank rank) const { return windows[static_cast<size_t>(rank)] + offset; }
};

// What is sent from the buffers may be lent (plan/lending.h): never, what stays to pipes that can lend it without any
// copy, or all of it.
enum class Lending : uint8_t { kNever, kWithoutCopies, kAlways };

// A core's part of the last cache on the processors that were seen (docs/decisions/0142).
inline constexpr size_t kCoreCache = size_t{16} << 20;

// What turns a plan into a call. The plan, the scratch memory and the user function outlive the execution.
struct Call {
  const Plan* plan = nullptr;
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  const void* scale = nullptr;  // prologue: a scalar of `type`
  int64_t divide = 0;           // epilogue
  UserFunction user = nullptr;
  void* user_context = nullptr;
  const Codec* codec = nullptr;     // encodes every message; null: they carry the values
  uint64_t draw = 0;                // for the codec's random choices
  CodedTraffic* traffic = nullptr;  // counts what the codec sends; null: nobody does
  float* losses = nullptr;          // of a sum's elements, as encodings lose something of them; null: it is lost
  SliceRunner* runner = nullptr;    // of slices, on buffers that we do not reach; null: we do
  Lending lending = Lending::kNever;
  size_t cache_bytes = kCoreCache;  // this rank's part of the last cache
  bool receives = false;            // data: does not have the memory to itself while it sends
  Layout send;
  Layout recv;
  PeerBuffers peers_send;  // for plans that reach into these
  PeerBuffers peers_recv;
  std::byte* scratch = nullptr;  // scratch_bytes() of it, aligned to 64
  size_t window = 0;             // elements of a chunk in one pass; equal on all ranks
  size_t slice_bytes = 0;        // equal on all ranks, at most the pipes' max_message
  uint32_t operation = 0;        // as its messages carry it
  uint32_t fingerprint = 0;      // collective, type, op, root, count or "v", plan

  // Contributions are changed where they enter: scaled, or made 0 or 1.
  bool has_prologue() const { return scale != nullptr || op >= ReduceOp::kLogicalAnd; }

  // Where the buffer of a window place begins.
  std::byte* window_base(const Place& place) const {
    return (place.buffer == Buffer::kSend ? peers_send : peers_recv).of(place.peer);
  }
};

class Execution {
 public:
  enum class Progress : uint8_t { kIdle, kProgressed, kDone, kFailed };

  // What a lane that cannot go on waits for: room in a pipe to a peer, or a message from one.
  struct Blocked {
    Rank peer = -1;  // -1: another lane, or nothing
    Sender* sender = nullptr;
    Receiver* receiver = nullptr;
  };

  explicit Execution(Pipes& pipes) : pipes_(pipes) {}
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Scratch memory that a call needs.
  static size_t scratch_bytes(const Call& call);

  // Elements of the longest message of a call; 0: its codec needs longer messages. Windows are multiples of it.
  static size_t slice_elements(const Call& call);

  // Begins a call, which stays as it is until it has ended. The one before has ended. `slices_done`: of its only lane
  // are done already (see fast_path.h).
  void start(const Call& call, size_t slices_done = 0);
  Progress advance();

  // Why advance() returned kFailed.
  const Status& status() const { return status_; }
  // The peer whose message belongs to another call than ours; -1: the failure is of another kind.
  Rank mismatch_peer() const { return mismatch_peer_; }
  // The peer at the other end of the pipe that broke; -1: none did, or it is not known.
  Rank broken_peer() const { return broken_peer_; }
  // The peers that lanes wait for, in the order of the lanes, and those that have not got what was sent to them.
  std::vector<Rank> awaited() const;
  // The pipes that lanes wait for, and those that have not told that everything has been received.
  std::vector<PipeWait> awaited_pipes() const;
  // Announces to the pipes that lanes wait for that the caller is about to sleep, or has woken.
  void set_waiting(bool waiting);
  // He is woken by pipes alone, and may sleep so long at most.
  Duration next_nap();
  // The call is given up: its caller's memory is its own again, but for what its runner has begun.
  void withdraw();

 private:
  struct LaneState {
    SliceWalk walk;
    bool entered = false;  // what the step comes after is done
    // Of the current slice:
    uint64_t issued = 0;           // destinations whose stable send has been issued
    bool written = false;          // all but its stable sends is done
    bool decided = false;          // the next two have been
    const Place* home = nullptr;   // the chunk from which its messages are sent stable; null: they are written in pipes
    std::byte* landing = nullptr;  // where its only source is received without a copy
    Blocked blocked;
  };
  // A pipe by which the call has sent.
  struct Departure {
    Rank peer;
    int lane;
    Sender* pipe;
    bool operator==(const Departure&) const = default;
  };
  // A stable send that may still read our memory; begin == end: memory that nothing is written to any more.
  struct OpenTicket {
    Departure to;
    Ticket ticket;
    const std::byte* begin;
    const std::byte* end;
  };
  // The part of a step that moves at once, and the pipe memory it has got hold of.
  struct Slice {
    const Step* step = nullptr;
    int lane_index = 0;
    Window window;
    size_t begin = 0;  // elements into the step's extent
    size_t count = 0;
    size_t bytes = 0;             // of its messages; coded: at most
    bool coded = false;           // its messages carry a codec's encoding
    const Place* home = nullptr;  // both as in LaneState
    std::byte* landing = nullptr;
    std::array<const Message*, kMaxSources> messages;
    std::array<std::byte*, kMaxDestinations> reserved;
  };
  enum class Outcome : uint8_t { kBlocked, kMoved, kFailed };

  bool may_enter(const SliceWalk& walk) const;
  void pass_over(size_t slices);
  Outcome run_lane(int index);
  Outcome run_slice(int index, LaneState& lane);
  void decide(LaneState& lane, const Slice& slice);
  const Layout& layout(Buffer buffer) const;
  std::byte* base(const Place& place) const;

  const Place* find_home(const Slice& slice) const;
  bool stays(const Place& home, const Slice& slice) const;
  bool sends_from(const Place& home, Sender& pipe, const Slice& slice) const;
  Outcome write(LaneState& lane, Slice& slice);
  Outcome send_stable(LaneState& lane, const Slice& slice);
  std::byte* landing_place(const Slice& slice) const;
  std::byte* only_piece(const Place& place, const Slice& slice) const;

  Outcome take_sources(LaneState& lane, Slice& slice);
  const Message* take(Receiver& pipe, const Slice& slice) const;
  Outcome take_destinations(LaneState& lane, Slice& slice);
  void drop_done_tickets();
  bool memory_is_free(const Slice& slice);
  void combine_pieces(Slice& slice);
  void combine_run(const Slice& slice, size_t offset, size_t count);
  void start_walks(const Slice& slice);
  std::optional<Losses> losses_of(const Slice& slice) const;
  Outcome code(const LaneState& lane, Slice& slice);
  Result<std::optional<size_t>> run_coded(int lane, const CodedSlice& slice);
  void give_back(const Slice& slice);
  void keep_flushing(const Departure& to);

  Progress finish();
  bool pipes_work();  // false: status_ says why not
  Outcome fail(Status status);

  Pipes& pipes_;
  const Call* call_ = nullptr;
  Layout scratch_;
  size_t element_bytes_ = 1;
  bool writes_past_caches_ = false;
  std::vector<LaneState> lanes_;
  std::vector<OpenTicket> tickets_;
  std::vector<Departure> unflushed_;
  std::vector<PieceWalk> walks_;  // of the slice at hand: one per chunk place, sources first
  Coder coder_;
  Status status_;
  Rank mismatch_peer_ = -1;
  Rank broken_peer_ = -1;
};

}  // namespace hocket
