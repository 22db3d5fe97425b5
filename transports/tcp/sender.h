// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The sending end: a short queue of messages, each with its header in a slot of its own, gathered into as few sends as
// possible. The payload lies behind its header, or stays in the caller's memory until the kernel has taken it.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "transports/page_memory.h"
#include "transports/pipe.h"
#include "transports/pipe_memory.h"

namespace hocket {

class TcpSender final : public Sender {
 public:
  TcpSender(const PipeContext& context, std::shared_ptr<Socket> socket, std::string name);
  ~TcpSender() override;

  std::byte* reserve(size_t bytes) override;
  void commit(size_t bytes, Envelope envelope) override;
  Ticket send_stable(std::span<const std::byte> bytes, Envelope envelope) override;
  bool done(Ticket ticket) override { return ticket <= taken_ || ticket == kCopied || !status_.ok(); }
  Status progress() override;
  bool flushed() override { return taken_ == queued_ && status_.ok(); }

 private:
  struct Outgoing {
    std::span<const std::byte> header;  // and padding, and the payload where it lies behind them
    std::span<const std::byte> stable;  // the payload in the caller's memory
  };

  bool has_room();
  // Of the next free slot, where the payload begins, at a cache line; its header and their padding go before it.
  std::byte* slot();
  // So much that the payload begins where it should within a line of the stream, `payload` being where it is read.
  uint8_t padding(std::span<const std::byte> payload) const;
  std::optional<uint32_t> checksum(std::span<const std::byte> payload) const;
  // `payload` lies in the slot, or is the caller's.
  void enqueue(std::span<const std::byte> payload, Envelope envelope);
  void flush();
  // Forgets what the kernel has taken.
  void take(size_t bytes);
  void fail(Code code, std::string what);

  Poller& poller_;
  std::shared_ptr<Socket> socket_;
  std::string name_;
  size_t max_message_;
  bool checksum_;
  size_t slot_bytes_;
  PageMemory slots_;  // kPipeDepth
  PipeMemory pipe_memory_{slots_.bytes()};
  PageHolding held_;
  std::array<Outgoing, kPipeDepth> queue_;
  uint64_t queued_ = 0;  // messages committed
  uint64_t stream_ = 0;  // bytes of these, with their headers and padding
  uint64_t taken_ = 0;   // of those, wholly with the kernel
  uint64_t origin_ = 0;  // the message that lies in slot 0: moved when the queue is empty, so that one slot stays warm
  size_t reserved_ = 0;
  bool has_reservation_ = false;
  Status status_;
};

}  // namespace hocket
