// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A pipe in memory that both ends map: one cache line (cell) per message holding a short message or where a longer one
// lies, and a header word, written last, that is at once ready flag, length and digest. Messages of medium length lie
// beside the cells, one to each; long ones in a few bulk slots. The ends touch each other's lines only when there is
// news. Does not know where the memory comes from; trusts nothing that the peer can
// write.
//
// A long message from memory that stays as it is may be lent instead: the cell says where it lies, and the consumer
// reads it in the producer's process, once, as soon as it looks at it. So each byte is copied once instead of twice.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "transports/claims.h"
#include "transports/pipe_end.h"

namespace hocket {

inline constexpr size_t kCacheLine = 64;

// One message. Header: sequence (16 bits, number of the message + 1) | length (24) | digest (24).
struct alignas(kCacheLine) RingCell {
  static constexpr size_t kInlineBytes = 56;

  std::byte data[kInlineBytes];  // the message, if it fits; else a RingPlace
  std::atomic<uint64_t> header;
};
static_assert(sizeof(RingCell) == kCacheLine);

// As many as the page of the control block holds: the more, the more seldom a sender of short messages looks what was
// released, which costs both ends a cache line.
inline constexpr size_t kRingCells = 32;

struct RingPlace {
  static constexpr uint32_t kLent = ~uint32_t{0};
  static constexpr uint32_t kBeside = kLent - 1;

  uint32_t slot = 0;     // or one of these
  uint64_t address = 0;  // in the producer's process
};

// How the consumer finds out whether it may read the producer's memory: it does, and compares.
struct RingProof {
  int64_t process = 0;
  uint64_t address = 0;
  uint64_t value = 0;
};

// The start of the shared memory; what lies beside the cells follows from kBesideOffset. Valid when zero-filled.
struct RingControl {
  alignas(kCacheLine) std::atomic<uint32_t> writer_waiting;  // set by the producer, read by each release
  std::atomic<uint32_t> withdrawn;                           // what was lent is not to be read any more
  alignas(kCacheLine) std::atomic<uint32_t> reader_waiting;  // set by the consumer, read by each commit
  std::atomic<uint32_t> borrows;                             // set by a consumer that can read the producer's memory
  alignas(kCacheLine) std::atomic<uint64_t> released;        // messages the consumer has released; read when needed
  alignas(kCacheLine) RingProof proof;                       // written before the consumer maps it
  std::array<RingCell, kRingCells> cells;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

struct RingHeader {
  uint16_t sequence = 0;
  uint32_t length = 0;
  uint32_t digest = 0;

  uint64_t pack() const { return uint64_t{sequence} | uint64_t{length} << 16 | uint64_t{digest} << 40; }
  static RingHeader unpack(uint64_t word) {
    return {static_cast<uint16_t>(word), static_cast<uint32_t>(word >> 16) & 0xFFFFFF,
            static_cast<uint32_t>(word >> 40)};
  }
};

// The memory of one ring, as one end sees it.
class Ring {
 public:
  static constexpr size_t kBesideOffset = 4096;  // an idle ring touches one page
  static constexpr size_t kBesideBytes = 1024;   // of each message there
  static constexpr size_t kBulkOffset = kBesideOffset + kRingCells * kBesideBytes;

  // Bytes that a ring for messages of up to max_message takes: computed alike at both ends.
  static size_t bytes(size_t max_message);
  // `owner` keeps `memory` (zero-filled by its maker, Ring::bytes long) mapped.
  Ring(std::shared_ptr<void> owner, std::span<std::byte> memory, size_t max_message);

  RingControl& control() const { return *control_; }
  RingCell& cell(uint64_t message) const { return control_->cells[message % kRingCells]; }
  std::byte* beside(uint64_t message) const {
    return reinterpret_cast<std::byte*>(control_) + kBesideOffset + message % kRingCells * kBesideBytes;
  }
  std::byte* slot(size_t index) const { return bulk_ + index * slot_bytes_; }
  size_t max_message() const { return max_message_; }

 private:
  std::shared_ptr<void> owner_;
  RingControl* control_;
  std::byte* bulk_;
  size_t slot_bytes_;
  size_t max_message_;
};

class RingSender final : public Sender {
 public:
  RingSender(Ring ring, SharedMemory& memory, Clock& clock, std::string name, std::function<void()> wake_peer);
  ~RingSender() override;

  std::byte* reserve(size_t bytes) override;
  void commit(size_t bytes, const Envelope& envelope) override;
  Ticket lend(std::span<const std::byte> bytes, const Envelope& envelope) override;
  bool done(Ticket ticket) override;
  void withdraw() override { ring_.control().withdrawn.store(1); }
  Status progress() override { return status_; }
  void set_waiting(bool waiting) override;

 private:
  enum class Home : uint8_t { kCell, kBeside, kSlot };
  static constexpr int kNoSlot = -1;

  bool has_room();
  // Learns what the consumer has released; false when it claims the impossible.
  bool refresh();
  bool reserve_slot(size_t bytes);
  std::byte* reserved_memory() const;
  int next_slot(size_t bytes) const;
  void give_up_slot();
  // The cell of the next message has been filled.
  void publish(size_t bytes, const Envelope& envelope);
  void fail(std::string what);

  Ring ring_;
  uint64_t proof_;  // the consumer reads it here
  uint64_t committed_ = 0;
  uint64_t released_ = 0;    // as last seen
  size_t reserved_ = 0;      // bytes ...
  Home home_ = Home::kCell;  // ... there
  int slot_ = kNoSlot;       // reserved
  int last_slot_ = 0;
  uint32_t free_slots_ = (1u << kPipeDepth) - 1;
  uint32_t used_slots_ = 0;  // those that held a message from streaming_from on
  Claims claims_;
  std::array<int, kRingCells> slot_of_;  // of the message in each cell
  Status status_;
  std::string name_;
  std::function<void()> wake_peer_;
};

class RingReceiver final : public Receiver {
 public:
  RingReceiver(Ring ring, SharedMemory& memory, std::string name, std::function<void()> wake_peer);

  const Message* peek() override;
  void release() override;
  const Message* receive_into(std::span<std::byte> into) override;
  Status progress() override { return status_; }
  void set_waiting(bool waiting) override;

 private:
  // Nothing there, unless the cell holds what no honest producer writes.
  const Message* not_ready(uint16_t sequence);
  const Message* open(const RingCell& cell, RingHeader header, std::span<std::byte> into);
  const Message* look(std::span<std::byte> into);
  // Copies a lent message, to `into` if it is as long, and frees its memory in the producer.
  bool borrow(uint64_t address, std::span<std::byte> into);
  void announce(uint64_t released);
  void fail(std::string what);

  Ring ring_;
  SharedMemory& memory_;
  RingProof proof_;
  uint64_t released_ = 0;
  bool peeked_ = false;
  bool borrowed_ = false;  // what was peeked: the producer knows already that it is released
  Message message_;
  std::unique_ptr<std::byte[]> copy_;  // of a lent message; touched only when used
  Status status_;
  std::string name_;
  std::function<void()> wake_peer_;
};

}  // namespace hocket
