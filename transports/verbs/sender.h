// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The sending end. It holds a mirror of the receiver's ring, registered: what is written to the mirror goes from there
// to the same place of the ring, and stays until the receiver has given the room back. A message that fits goes there
// at once; others wait in a short queue, or in the caller's memory, and are copied as room appears.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "transports/exchange.h"
#include "transports/pipe.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/ring_memory.h"

namespace hocket {

class VerbsSender final : public Sender {
 public:
  // Fails when the port gives no queue pair.
  static Result<std::unique_ptr<VerbsSender>> open(const PipeContext& context, const VerbsTable& table,
                                                   const VerbsPort& port, std::unique_ptr<Socket> socket,
                                                   std::string name);
  ~VerbsSender() override;

  std::byte* reserve(size_t bytes) override;
  void commit(size_t bytes, const Envelope& envelope) override;
  Ticket send_stable(std::span<const std::byte> bytes, const Envelope& envelope) override;
  bool done(Ticket ticket) override { return ticket <= taken_ || ticket == kCopied || !status_.ok(); }
  void withdraw() override;
  Status progress() override;
  bool flushed() override;
  void set_waiting(bool waiting) override;

 private:
  struct Outgoing {
    std::span<const std::byte> left;
    uint32_t digest = 0;
  };
  enum class Reservation : uint8_t { kNone, kMirror, kSlot };

  VerbsSender(const PipeContext& context, std::unique_ptr<Socket> socket, std::string name);

  // What the receiver's card says, once it is here; the pipe is open then.
  Status meet();
  bool is_open() const { return ring_.bytes != 0; }
  // Looks what was given back, and sends what waits.
  void move();
  void push();
  Status look();
  // A message of so many bytes goes into the mirror as it is.
  bool fits(size_t bytes) const;
  std::byte* mirror_at(uint64_t position) const { return mirror_.bytes().data() + position % ring_.bytes; }
  // From here to the end of the ring, or of the room that there is.
  size_t to_end() const { return ring_.bytes - written_ % ring_.bytes; }
  size_t room() const { return ring_.bytes - (written_ - given_back_); }
  Status send_frame(size_t length, size_t rest, uint32_t digest);
  void enqueue(std::span<const std::byte> bytes, const Envelope& envelope);
  std::byte* slot() const { return slots_.bytes().data() + queued_ % kPipeDepth * slot_bytes_; }
  bool has_slot();
  // Whether the receiver is still there; what it says at last.
  Status listen();
  void fail(Code code, std::string what);
  void fail(const Status& status) { fail(status.code(), status.message()); }

  Poller& poller_;
  const std::string name_;
  const size_t max_message_;
  const size_t slot_bytes_;
  RingMemory mirror_;
  Exchange exchange_;
  std::unique_ptr<QueuePair> pair_;
  VerbsGid gid_;
  Fabric fabric_ = Fabric::kEthernet;
  RemoteRing ring_;          // of the receiver; none yet
  uint64_t written_ = 0;     // bytes of the stream of frames
  uint64_t given_back_ = 0;  // of those
  uint32_t frames_ = 0;      // written and not given back
  uint32_t number_ = 0;      // of the next frame
  bool gone_ = false;        // the receiver has left, with all that was written
  PageMemory slots_;         // kPipeDepth
  std::array<Outgoing, kPipeDepth> queue_;
  uint64_t queued_ = 0;  // messages that went to the queue
  uint64_t taken_ = 0;   // of those, wholly in the mirror
  uint64_t last_stable_ = 0;
  Reservation reservation_ = Reservation::kNone;
  size_t reserved_ = 0;
  std::byte* reserved_at_ = nullptr;
  uint32_t looks_ = 0;  // in vain
  Status status_;
};

}  // namespace hocket
