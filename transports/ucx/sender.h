// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The sending end. A message is written in a slot and goes from there as an active message, at once or when the
// receiver has been met. The slot is free again when UCX is done with it; how many messages may be under way, the
// receiver says over the socket.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "transports/exchange.h"
#include "transports/page_memory.h"
#include "transports/pipe.h"
#include "transports/pipe_end.h"
#include "transports/pipe_memory.h"
#include "transports/ucx/card.h"
#include "transports/ucx/worker.h"

namespace hocket {

class UcxSender final : public Sender {
 public:
  UcxSender(const PipeContext& context, std::shared_ptr<UcxWorker> worker, std::shared_ptr<Socket> socket,
            std::string name);
  ~UcxSender() override;

  std::byte* reserve(size_t bytes) override;
  void commit(size_t bytes, Envelope envelope) override;
  Status progress() override;
  bool flushed() override;
  void set_waiting(bool waiting) override;

 private:
  enum class Use : uint8_t { kFree, kTaken, kUnderWay };
  struct Slot {
    Use use = Use::kFree;
    size_t bytes = 0;
    UcxOperation operation;
  };

  // What the receiver's card says, once it is here, and then its address.
  Status meet();
  Status move();
  Status post(size_t slot);
  // Forgets what UCX is done with.
  Status reap();
  // Looks at what came with the peer's messages, and at what its receiver has reported.
  Status hear_along();
  Status hear();
  Status take(const UcxReport& report);
  // The connection broke: no failure if the receiver says that it left with everything.
  Status on_broken(const Status& status);
  // Looks whether the system has taken all of it.
  Status flush();
  bool has_room() const { return sent_ - released_ < kUcxWindow; }
  // That are not known to be released.
  size_t bytes_ahead() const;
  size_t free_slot() const;
  std::byte* line(size_t slot) const { return memory_->bytes().data() + slot * slot_bytes_; }

  System& system_;
  PipeState state_;
  const size_t max_message_;
  const size_t slot_bytes_;
  const std::shared_ptr<UcxWorker> worker_;
  const std::shared_ptr<UcxTies> ties_;
  Exchange exchange_;
  UcxCard card_;  // of the receiver; without an address yet
  std::shared_ptr<UcxLink> link_;
  std::shared_ptr<PageMemory> memory_;  // the slots
  PageHolding held_;                    // of these
  std::optional<PipeMemory> pipe_memory_{memory_->bytes()};
  std::array<Slot, kUcxWindow> slots_;
  size_t under_way_ = 0;                       // of these
  std::array<uint8_t, kUcxWindow> slot_of_{};  // a message, by its number
  std::array<size_t, kUcxWindow> bytes_of_{};
  size_t reserved_ = kUcxWindow;  // the slot; that many: none
  uint64_t sent_ = 0;             // messages committed
  uint64_t posted_ = 0;           // of those; the others wait until the receiver has been met
  uint64_t released_ = 0;         // of those
  uint64_t flushed_ = 0;          // of those
  uint64_t flushing_ = 0;
  UcxOperation marker_;
  bool gone_ = false;  // the receiver has left, with all that was sent
  Status broken_;
  Time broken_at_;
  uint32_t looks_ = 0;
};

}  // namespace hocket
