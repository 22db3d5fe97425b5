// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A pipe in memory that both ends map: one cache line (cell) per message holding a short message or where a longer one
// lies, and a header word, written last, that is at once ready flag, length and digest. Messages of medium length lie
// beside the cells, one to each; long ones in units of a larger memory. The ends touch each other's lines only when
// there is news. Does not know where the memory comes from; trusts nothing that the peer can write.
//
// A long message from memory that stays as it is may be lent instead: the cell says where it lies, and the consumer
// reads it in the producer's process, once, as soon as it looks at it. So each byte is copied once instead of twice.
//
// Where messages go both ways, their slots are traded (transports/slot_trade.h).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "transports/claims.h"
#include "transports/pipe_end.h"
#include "transports/pipe_memory.h"
#include "transports/ring_layout.h"
#include "transports/slot_trade.h"

namespace hocket {

// Whether a sender whose reader is at middle distance takes all units in turn from then on, which leave the caches of
// both for the one that they share (docs/decisions/0141): not where ranks share cores, and on processors of AMD, where
// it was measured.
bool may_widen(const PipeContext& context);

class RingSender final : public Sender {
 public:
  // `trade` is what this end and its rank's receiver from the same peer have in common; `budget` may be null.
  RingSender(Ring ring, SharedMemory& memory, Clock& clock, std::string name, std::function<void()> wake_peer,
             std::shared_ptr<SlotTrade> trade, bool may_widen, std::shared_ptr<Budget> budget = nullptr);
  ~RingSender() override;

  std::byte* reserve(size_t bytes) override;
  void commit(size_t bytes, Envelope envelope) override;
  Ticket lend(std::span<const std::byte> bytes, Envelope envelope) override;
  bool done(Ticket ticket) override;
  void withdraw() override { ring_.control().withdrawn.store(1); }
  Status progress() override { return status_; }
  void set_waiting(bool waiting) override;

 private:
  enum class Home : uint8_t { kCell, kBeside, kUnits, kSlot };
  static constexpr int kNoSlot = -1;

  // From which length on the consumer reads what is lent, once it has said so.
  void learn_what_is_lent();
  bool has_room();
  // Learns what the consumer has released; false when it claims the impossible.
  bool refresh();
  std::byte* reserve_at(Home home, size_t bytes);
  std::byte* reserved_memory() const;
  // One that we have read last and may write, or one more to give. True also when a slot is reserved already.
  bool reserve_traded_slot(size_t bytes);
  // One more slot, of those that are beside what the pipe promises.
  bool may_give() const { return next_spare_ < Ring::kMostGiven && trade_->hears(); }
  // Units of our own; false when none are free.
  bool reserve_units(size_t bytes);
  // As many units as such a message takes, or a power of two that is more, from a multiple of their number on: so no
  // more of the longest messages' places are taken than there are messages, and the pipe is as deep as it promises.
  int units_for(size_t bytes) const;
  // Of the first `places`, each of so many units, one that is free, by its first unit: looked for from `from` on.
  std::optional<int> free_place(int from, int units, int places) const;
  // How far its reader is, if that has read what lay at the place that is reserved.
  void look_at_reader(size_t bytes);
  void widen();
  void hold(size_t bytes);
  // What counts a slot's memory, and how far from its beginning the slot lies.
  std::pair<PageHolding&, size_t> holding_of(uint32_t slot);
  // The slot, or the units, go with the next message of so many bytes: what its cell says of them.
  uint32_t send_slot();
  uint32_t send_units(size_t bytes);
  // The cell of the next message has been filled.
  void publish(size_t bytes, Envelope envelope);
  // Takes the lines of the next cell, and of so many bytes beside it, from the peer, who has read what was there.
  void claim_next(size_t beside);
  void fail(std::string what);

  Ring ring_;
  PipeMemory pipe_memory_;
  uint64_t proof_;  // the consumer reads it here
  uint64_t committed_ = 0;
  uint64_t released_ = 0;    // as last seen
  size_t reserved_ = 0;      // bytes ...
  Home home_ = Home::kCell;  // ... there
  int slot_ = kNoSlot;       // reserved: a bit of the masks of those that are traded
  int next_spare_ = 0;       // slot: it becomes a traded one when it is first given
  int place_ = 0;            // the first unit that is reserved, or was last
  int units_ = 1;            // ... and how many
  uint64_t free_units_ = ~uint64_t{0};
  size_t in_units_ = 0;      // messages under way, as last seen
  uint64_t read_units_ = 0;  // those with which a message from streaming_from on began
  const bool may_widen_;
  bool wide_ = false;  // messages take all units in turn, not a few
  std::shared_ptr<SlotTrade> trade_;
  uint32_t traded_slots_ = 0;  // that have come: free, and read by us last
  Claims claims_;
  std::array<uint64_t, kRingCells> units_of_{};  // that the message of each cell holds
  PageHolding held_;                             // of the ring's memory
  PageHolding held_of_theirs_;                   // of the peer's slots, as far as we have written there
  bool holds_beside_ = false;
  Status status_;
  std::string name_;
  std::function<void()> wake_peer_;
};

class RingReceiver final : public Receiver {
 public:
  RingReceiver(Ring ring, SharedMemory& memory, std::string name, std::function<void()> wake_peer,
               std::shared_ptr<SlotTrade> trade, std::shared_ptr<Budget> budget = nullptr, bool shares_cores = false);

  const Message* peek() override;
  void release() override;
  const Message* receive_into(std::span<std::byte> into) override;
  Status progress() override { return status_; }
  void set_waiting(bool waiting) override;

 private:
  // Sets message_.data to what such a number in a cell names; false when that is nothing.
  bool find_units(uint32_t number);
  bool find_slot(uint32_t number);
  // Nothing there, unless the cell holds what no honest producer writes.
  const Message* not_ready(uint16_t sequence);
  const Message* open(const RingCell& cell, RingHeader header, std::span<std::byte> into);
  const Message* look(std::span<std::byte> into);
  // Copies a lent message, to `into` if it is as long, and frees its memory in the producer.
  bool borrow(uint64_t address, std::span<std::byte> into);
  void announce(uint64_t released);
  void fail(std::string what);

  Ring ring_;
  PipeMemory pipe_memory_;
  SharedMemory& memory_;
  RingProof proof_;
  uint64_t released_ = 0;
  bool peeked_ = false;
  bool borrowed_ = false;  // what was peeked: the producer knows already that it is released
  std::shared_ptr<SlotTrade> trade_;
  std::optional<uint32_t> coming_;  // slot, with what was peeked
  Message message_;
  std::unique_ptr<std::byte[]> copy_;  // of a lent message; touched only when used
  Holding held_;                       // of that
  Status status_;
  std::string name_;
  std::function<void()> wake_peer_;
};

}  // namespace hocket
