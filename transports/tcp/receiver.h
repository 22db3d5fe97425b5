// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The receiving end: reads ahead a little, so that short messages cost one call or less, and the bulk of a long message
// straight to where it is wanted: the staging buffer (peek) or the caller's memory (receive_into).
#pragma once

#include <memory>
#include <string>

#include "transports/page_memory.h"
#include "transports/pipe.h"
#include "transports/pipe_memory.h"
#include "transports/tcp/wire.h"

namespace hocket {

class TcpReceiver final : public Receiver {
 public:
  TcpReceiver(const PipeContext& context, std::shared_ptr<Socket> socket, std::string name);
  ~TcpReceiver() override;

  const Message* peek() override;
  void release() override;
  const Message* receive_into(std::span<std::byte> into) override;
  Status progress() override { return status_; }
  uint64_t arrived() const override { return stream_ + socket_->held_back(); }

 private:
  enum class State : uint8_t { kHeader, kPadding, kPayload, kDirect, kReady };

  size_t buffered() const { return end_ - begin_; }
  // True once the next header is known and checked, and its padding; its payload begins at begin_.
  bool read_header();
  bool skip_padding();
  // True once `wanted` bytes are buffered. Reads at most once.
  bool fill(size_t wanted);
  // Room behind begin_ for `wanted` bytes and those read ahead.
  void make_room(size_t wanted);
  // The next part of the payload lies behind those that came before it.
  void place(std::span<const std::byte> part);
  // The message is complete at `data`; null if it was damaged.
  const Message* ready(const std::byte* data, size_t in_buffer);
  size_t receive(std::span<std::byte> into);
  void fail(Code code, std::string what);
  std::string where() const;

  Poller& poller_;
  std::shared_ptr<Socket> socket_;
  std::string name_;
  size_t max_message_;
  size_t capacity_;
  PageMemory memory_;
  PipeMemory pipe_memory_{memory_.bytes()};
  Holding held_;  // as much as was filled at once
  std::byte* buffer_;
  size_t begin_ = 0;  // unread bytes in buffer_
  size_t end_ = 0;
  uint64_t stream_ = 0;  // bytes received
  State state_ = State::kHeader;
  WireHeader header_;
  uint32_t number_ = 0;   // of the next message
  size_t placed_ = 0;     // bytes of the payload that lie where they are wanted
  uint32_t sum_ = 0;      // of those
  size_t in_buffer_ = 0;  // bytes that release() drops (kReady)
  Message message_;
  Status status_;
};

}  // namespace hocket
