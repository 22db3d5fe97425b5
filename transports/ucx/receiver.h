// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The receiving end. Short messages are read where UCX has put them; long ones, which are only offered, are fetched
// into a slot as soon as they are looked for.
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

class UcxReceiver final : public Receiver {
 public:
  UcxReceiver(const PipeContext& context, std::shared_ptr<UcxWorker> worker, std::shared_ptr<Socket> socket,
              std::string name, uint64_t token);
  ~UcxReceiver() override;

  const Message* peek() override;
  void release() override;
  Status progress() override;
  void set_waiting(bool waiting) override;
  // UCX does not show how far a message has come.
  uint64_t arrived() const override { return worker_->moves(); }

 private:
  struct Fetch {
    bool begun = false;
    UcxOperation operation;
  };

  Status look();
  // Begins to fetch what was offered, in order.
  Status fetch();
  // The next message lies where it can be read.
  Result<bool> is_here();
  bool has_next() {
    return inbox_.at(inbox_.released()).kind.load(std::memory_order_acquire) != UcxArrival::Kind::kNone;
  }
  // Whether the sender is still there; what it says at last.
  Status listen();
  // Nothing more can come, or nothing has come since the sender left.
  Status judge();
  // If it is so much that the sender has not been told.
  void tell_released(uint64_t least);
  std::byte* slot(uint64_t number) const;

  System& system_;
  PipeState state_;
  const size_t max_message_;
  const size_t slot_bytes_;
  const std::shared_ptr<UcxWorker> worker_;
  const uint64_t token_;
  const std::shared_ptr<UcxTies> ties_;
  UcxInbox inbox_;
  Exchange exchange_;
  std::shared_ptr<PageMemory> memory_;  // slots for what is fetched; made at the first
  PageHolding held_;                    // of these
  std::optional<PipeMemory> pipe_memory_;
  std::array<Fetch, kUcxWindow> fetches_;
  uint64_t looked_at_ = 0;  // messages whose fetching has begun, or which need none
  uint64_t told_ = 0;       // messages that the socket told to be released
  bool ready_ = false;
  Message message_;
  std::optional<UcxReport> left_;  // the sender's last word
  Status lost_;                    // the socket
  Time lost_at_;
  uint32_t looks_ = 0;  // in vain
};

}  // namespace hocket
