// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The receiving end, whose ring the sender writes. A message that lies in one piece is read where it lies; a longer one
// is put together in the caller's memory, or in a buffer. Room is given back by the quarter of the ring.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transports/exchange.h"
#include "transports/pipe.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/ring_memory.h"

namespace hocket {

class VerbsReceiver final : public Receiver {
 public:
  // The ports must outlive it.
  VerbsReceiver(const PipeContext& context, const VerbsTable& table, std::span<const VerbsPort> ports,
                std::unique_ptr<Socket> socket, std::string name);
  ~VerbsReceiver() override;

  const Message* peek() override;
  const Message* receive_into(std::span<std::byte> into) override;
  void release() override;
  Status progress() override;
  void set_waiting(bool waiting) override;

 private:
  // Answers the sender's card, once it is here.
  Status meet();
  Status answer(const VerbsCard& theirs);
  const VerbsPort* port_for(const VerbsCard& theirs, VerbsGid* gid) const;
  const Message* next(std::span<std::byte> into);
  // Looks what has arrived.
  Status look();
  // What the sender has told, if it can be true.
  Status take_told();
  // The sender is gone, and nothing of it is left to be read.
  Status listen();
  Status read_header(FrameHeader* header) const;
  // Puts a part of a message where it belongs.
  void place(const FrameHeader& header, std::span<std::byte> into);
  void give_back(size_t bytes);
  void pay();
  void fail(Code code, std::string what);
  void fail(const Status& status) { fail(status.code(), status.message()); }

  Poller& poller_;
  const VerbsTable& table_;
  const std::span<const VerbsPort> ports_;
  const std::string name_;
  const size_t max_message_;
  Exchange exchange_;
  std::optional<RingMemory> ring_;
  std::unique_ptr<QueuePair> pair_;
  uint64_t arrived_ = 0;  // bytes of the stream of frames
  uint64_t read_ = 0;     // of those
  uint32_t frames_ = 0;   // arrived and not given back
  uint32_t number_ = 0;   // of the next frame
  RingAmount owed_;       // read, and not yet given back
  size_t total_ = 0;      // of a message that is put together
  size_t placed_ = 0;     // of that
  bool assembling_ = false;
  std::byte* target_ = nullptr;
  std::unique_ptr<std::byte[]> buffer_;  // for messages in several frames; made at the first
  bool ready_ = false;
  size_t held_ = 0;  // the frame that message_ lies in
  Message message_;
  uint32_t looks_ = 0;  // in vain
  Status broken_;       // of the connection; what has arrived can still be read
  Status status_;
};

}  // namespace hocket
