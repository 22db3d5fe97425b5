// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The receiving end, whose ring the sender writes. A message that lies in one piece is read where it lies; a longer one
// is put together in the caller's memory, or in a buffer, and one that is lent is brought there. Room is given back by
// the quarter of the ring.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transports/page_memory.h"
#include "transports/pipe_end.h"
#include "transports/pipe_memory.h"
#include "transports/verbs/receiving_path.h"

namespace hocket {

class VerbsReceiver final : public Receiver {
 public:
  // The rails must outlive it.
  VerbsReceiver(const PipeContext& context, const VerbsTable& table, VerbsRails& rails, std::shared_ptr<Socket> socket,
                std::string name);

  const Message* peek() override;
  const Message* receive_into(std::span<std::byte> into) override;
  const Message* receive_beyond(std::span<std::byte> into) override;
  void withdraw() override;
  void release() override;
  Status progress() override;
  void set_waiting(bool waiting) override;
  // A turn to another path is news, too: it takes as long as the last one needs to break.
  uint64_t arrived() const override { return path_.arrived() + path_.turns(); }

 private:
  // Where the caller wants a message.
  struct Wish {
    std::span<std::byte> into;
    bool beyond_host = false;
  };

  const Message* next(const Wish& wish);
  // The sender is gone only when nothing of it is left to be read.
  void check(const Status& looked);
  Status read_header(FrameHeader* header) const;
  Status read_place(LentPlace* place) const;
  // Puts a part of a message where it belongs.
  void place(const FrameHeader& header, const Wish& wish);
  void begin(size_t bytes, std::span<std::byte> into);
  void borrow(const FrameHeader& header, const Wish& wish);
  // The message is whole, and not in the ring.
  void complete(uint32_t digest);
  void give_back(size_t bytes, bool at_once = false);
  std::byte* buffer() const { return buffer_ ? buffer_->bytes().data() : nullptr; }
  // A message that is not whole goes to the caller's memory.
  bool fills_callers_memory() const { return (assembling_ || borrowing_) && target_ != buffer(); }

  const size_t max_message_;
  // For messages that are not in the ring as a whole; made at the first. Devices write there until the path has ended.
  std::optional<PageMemory> buffer_;
  Holding buffer_held_;
  std::optional<PipeMemory> buffer_of_pipe_;
  std::optional<LastingMemory::Hold> buffer_lasts_;
  ReceivingPath path_;
  uint64_t read_ = 0;    // bytes of the stream of frames
  uint32_t number_ = 0;  // of the next frame
  size_t total_ = 0;     // of a message that is put together
  size_t placed_ = 0;    // of that
  bool assembling_ = false;
  bool borrowing_ = false;
  uint32_t lent_digest_ = 0;
  std::byte* target_ = nullptr;
  bool ready_ = false;
  size_t held_ = 0;  // the frame that message_ lies in
  Message message_;
  PipeState state_;
};

}  // namespace hocket
