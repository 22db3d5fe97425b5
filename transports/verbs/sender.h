// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The sending end. It holds a mirror of the receiver's ring, registered: what is written to the mirror goes from there
// to the same place of the ring, and stays until the receiver has given the room back, so that it can be sent again
// another way (sending_path.h). A message that fits goes there at once; others wait in a short queue, or in the
// caller's memory, and are copied as room appears. What is lent stays in the caller's memory: a frame says where, and
// the receiver's device reads it there.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "transports/pipe_end.h"
#include "transports/pipe_memory.h"
#include "transports/verbs/ring_memory.h"
#include "transports/verbs/sending_path.h"

namespace hocket {

class VerbsSender final : public Sender {
 public:
  // Fails when the port gives no queue pair.
  static Result<std::unique_ptr<VerbsSender>> open(const PipeContext& context, const VerbsTable& table,
                                                   VerbsRails& rails, std::shared_ptr<Socket> socket, std::string name);

  std::byte* reserve(size_t bytes) override;
  void commit(size_t bytes, Envelope envelope) override;
  Ticket send_stable(std::span<const std::byte> bytes, Envelope envelope) override;
  Ticket lend(std::span<const std::byte> bytes, Envelope envelope) override;
  bool can_lend(std::span<const std::byte> bytes) override;
  bool done(Ticket ticket) override;
  void withdraw() override;
  Status progress() override;
  bool flushed() override;
  void set_waiting(bool waiting) override;

 private:
  struct Outgoing {
    std::span<const std::byte> left;
    uint32_t digest = 0;
    bool lent = false;
    bool beyond_host = false;
    bool begun = false;
  };
  // What a frame has said of, and the receiver has not read yet.
  struct Loan {
    std::span<const std::byte> bytes;
    uint64_t position = 0;  // of the frame
    Ticket ticket = 0;
    bool beyond_host = false;
    bool given = false;  // over the socket
  };
  enum class Reservation : uint8_t { kNone, kMirror, kSlot };

  VerbsSender(const PipeContext& context, const VerbsTable& table, VerbsRails& rails, std::shared_ptr<Socket> socket,
              std::string name);

  // Looks what was given back, and sends what waits.
  void move();
  // Does what the path has learnt, when it was looked at with this outcome.
  void follow(Status moved);
  void break_off(const Status& why);
  void push();
  Status push_part(Outgoing& next, size_t frame);
  void push_loan(Outgoing& next);
  bool is_free(Ticket ticket) const;
  Loan& loan(uint64_t number) { return loans_[number % kPipeDepth]; }
  void end_loans();
  Status give(uint64_t position);
  // Makes the frame of a lent message say how it can be read by the way that there is now.
  void refresh_place(uint64_t position);
  LentPlace place_at(uint64_t position) const;
  // What the receiver has not got by the way that was lost.
  Status send_again(uint64_t from);
  // The receiver has left with all that was sent, or that is a failure.
  Status check_farewell();
  bool gone() const { return path_.farewell().has_value(); }
  // A message of so many bytes goes into the mirror as it is, once there is room.
  bool is_next(size_t bytes) const;
  bool fits(size_t bytes) const;
  // The frame would have to be cut at the end of the ring, and there is room for it behind that.
  bool wraps(size_t frame) const { return frame > to_end() && to_end() + frame <= room(); }
  void skip_to_end() { send_frame(0, kSkip, 0); }
  std::byte* mirror_at(uint64_t position) const { return mirror_.bytes().data() + position % path_.ring_bytes(); }
  // From a place to the end of the ring.
  size_t to_end(uint64_t position) const { return path_.ring_bytes() - position % path_.ring_bytes(); }
  size_t to_end() const { return to_end(written_.bytes); }
  size_t room() const { return path_.ring_bytes() - (written_.bytes - path_.returned().bytes); }
  bool may_send() const {
    return path_.is_open() && path_.has_room() && written_.frames - path_.returned().frames < kMaxFrames;
  }
  void send_frame(size_t length, size_t rest, uint32_t digest);
  // The frame at that position of the stream; returns what it takes.
  size_t post_frame(uint64_t position);
  Ticket send_from_place(std::span<const std::byte> bytes, Envelope envelope, bool lent);
  void enqueue(const Outgoing& message);
  std::byte* slot() const { return slots_.bytes().data() + queued_ % kPipeDepth * slot_bytes_; }
  bool has_slot();

  const size_t max_message_;
  const size_t slot_bytes_;
  RingMemory mirror_;
  SendingPath path_;
  RingTotal written_;    // of the stream of frames
  uint32_t number_ = 0;  // of the next frame
  PageMemory slots_;     // kPipeDepth
  PageHolding held_;     // of these
  PipeMemory slots_of_pipe_{slots_.bytes()};
  PipeMemory mirror_of_pipe_{mirror_.bytes()};
  std::array<Outgoing, kPipeDepth> queue_;
  uint64_t queued_ = 0;  // messages that went to the queue
  uint64_t taken_ = 0;   // of those, wholly in the mirror
  uint64_t last_stable_ = 0;
  std::array<Loan, kPipeDepth> loans_;
  uint64_t lent_ = 0;
  uint64_t repaid_ = 0;  // of those
  Reservation reservation_ = Reservation::kNone;
  size_t reserved_ = 0;
  std::byte* reserved_at_ = nullptr;
  PipeState state_;
};

}  // namespace hocket
