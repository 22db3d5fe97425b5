// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What lies in the memory of a ring, and where.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transports/pipe.h"

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
  // Added to the number of a slot that is traded: the consumer keeps it, until it sends something there; it is the
  // consumer's own.
  static constexpr uint32_t kGiven = 1 << 8;
  static constexpr uint32_t kHome = 1 << 9;
  // Added to the number of a unit: as Message::in_shared_cache says.
  static constexpr uint32_t kShared = 1 << 10;

  uint32_t slot = 0;     // a traded one; or the unit from which it lies; or one of the first two
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
  std::atomic<uint32_t> borrows_from;  // set by a consumer that can read the producer's memory: from how many bytes on
  alignas(kCacheLine) std::atomic<uint64_t> released;  // messages the consumer has released; read when needed
  alignas(kCacheLine) RingProof proof;                 // written before the consumer maps it
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
  static constexpr int kUnits = 64;     // in which messages of the producer's own lie, ...
  static constexpr int kSlotUnits = 8;  // ... the longest in so many
  static_assert(kUnits == kSlotUnits * kPipeDepth);
  static constexpr int kMostGiven = 4;  // slots beside, which the consumer may have

  // Bytes that a ring for messages of up to max_message takes: computed alike at both ends.
  static size_t bytes(size_t max_message);
  // `owner` keeps `memory` (zero-filled by its maker, Ring::bytes long) mapped.
  Ring(std::shared_ptr<void> owner, std::span<std::byte> memory, size_t max_message);

  RingControl& control() const { return *control_; }
  RingCell& cell(uint64_t message) const { return control_->cells[message % kRingCells]; }
  std::byte* beside(uint64_t message) const {
    return reinterpret_cast<std::byte*>(control_) + kBesideOffset + message % kRingCells * kBesideBytes;
  }
  std::byte* unit(size_t index) const { return bulk_ + index * unit_bytes_; }
  // One that is traded, for one message of any length.
  std::byte* slot(size_t index) const { return unit(kUnits + index * kSlotUnits); }
  size_t unit_bytes() const { return unit_bytes_; }
  size_t max_message() const { return max_message_; }
  std::span<std::byte> memory() const { return {reinterpret_cast<std::byte*>(control_), bytes(max_message_)}; }

 private:
  std::shared_ptr<void> owner_;
  RingControl* control_;
  std::byte* bulk_;
  size_t unit_bytes_;
  size_t max_message_;
};

}  // namespace hocket
