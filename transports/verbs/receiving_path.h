// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The ring of a receiver, and the way that the sender's frames take to it: a queue pair, another one when the sender
// says so, or the pipe's socket, from which the frames are put where the device would have written them. Knows no
// message.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transports/pipe.h"
#include "transports/pipe_memory.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/rails.h"
#include "transports/verbs/record.h"
#include "transports/verbs/ring_memory.h"
#include "transports/verbs/silence.h"

namespace hocket {

class ReceivingPath {
 public:
  // The rails must outlive it.
  ReceivingPath(const PipeContext& context, const VerbsTable& table, VerbsRails& rails, std::shared_ptr<Socket> socket,
                std::string pipe);
  // Says farewell.
  ~ReceivingPath();
  ReceivingPath(const ReceivingPath&) = delete;
  ReceivingPath& operator=(const ReceivingPath&) = delete;

  // Looks what has arrived. Fails when the sender is gone, or lies; what arrived before can still be read.
  Status look();
  // There is news at the poller when something arrives.
  Status arm();

  // None before the sender has shown itself.
  std::span<const std::byte> ring() const { return ring_ ? ring_->bytes() : std::span<std::byte>(); }
  uint64_t arrived() const { return arrived_.bytes; }
  uint32_t turns() const { return path_; }
  // A frame of so many bytes has been read; told to the sender when it is worth it, or at once.
  void give_back(size_t bytes, bool at_once);

  // The device can read there, and whether it can write here.
  bool can_read(const LentPlace& place) const { return pair_ != nullptr && place.path == path_ && pair_->has_room(); }
  bool can_write(std::span<std::byte> into) const { return pair_ != nullptr && pair_->keys_for(into).has_value(); }
  // Brings what the frame at this position says is lent: to `into` by the device, or, where that cannot, over the
  // socket to where the host writes. One at a time.
  void borrow(uint64_t position, const LentPlace& place, std::span<std::byte> into, std::byte* by_host);
  // It has come whole.
  bool has_borrowed() const { return loan_.has_value() && loan_->left.empty(); }
  // Where it is then.
  std::byte* borrowed() const { return loan_->begin; }
  // It is not wanted any more; nothing is written there from now on.
  void end_loan();

 private:
  struct Loan {
    uint64_t position = 0;
    size_t bytes = 0;
    std::byte* begin = nullptr;
    std::byte* by_host = nullptr;  // where it begins if the socket brings it
    std::span<std::byte> left;     // what has not come
    bool by_device = false;
  };

  // Arrived and not given back.
  uint64_t under_way() const { return arrived_.bytes - returned_.bytes; }
  Status poll();
  Status collect();
  Status poll_all();
  Status check_arrived() const;
  // Gives back what was read, when it is much, or so many frames.
  void pay(uint32_t frames);
  void pay_all();
  void drop_pair();
  void lose(std::string_view why);
  void watch();
  // After listening: looks after the port, and tells the sender what there is to tell.
  Status tend();
  Status hear();
  Status hear(const Record& record);
  Status on_turn(const Turn& turn);
  Status open_pair(const VerbsCard& theirs, VerbsRails::Choice choice, Answer* answer);
  Status on_frame(std::string_view frame);
  Status on_lent_bytes(const LentBytes& part);
  bool read(const LentPlace& place);
  void fetch();

  System& system_;
  Poller& poller_;
  const VerbsTable& table_;
  VerbsRails& rails_;
  const std::shared_ptr<Budget> budget_;
  const std::string pipe_;
  Records records_;
  std::optional<RingMemory> ring_;
  std::optional<PipeMemory> ring_of_pipe_;
  std::optional<size_t> port_;
  std::unique_ptr<QueuePair> pair_;  // none: the socket, or no way at all
  bool by_socket_ = false;
  bool proved_ = false;  // something came by the port
  uint32_t path_ = 0;
  RingTotal arrived_;
  RingTotal returned_;
  RingAmount owed_;  // read, and not yet given back
  bool owes_at_once_ = false;
  std::optional<Loan> loan_;
  Stand told_;  // over the socket
  uint32_t looks_ = 0;
  Silence silence_;
  Time next_watch_{};
};

}  // namespace hocket
