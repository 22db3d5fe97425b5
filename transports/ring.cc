// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <utility>

namespace hocket {
namespace {

constexpr size_t kPage = 4096;

// From here on looking for freed slots before each message costs little, and few slots in turn stay in the cache.
constexpr size_t kReuseFrom = 16 << 10;
// As many slots are used in turn as hold this: to write where the consumer has read just before takes up to a third
// longer (docs/performance.md).
constexpr size_t kTurnBytes = 128 << 10;

bool is_amd() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

// Two lines are claimed sooner than a slot is traded.
constexpr size_t kTradedFrom = 129;

// Shorter messages are as fast through plain stores, which leave them in this core's cache.
constexpr size_t kStreamFrom = 4 << 10;

// Reading another process' memory costs a call of the system and the lookup of each page, which pays from here on;
// never on an AMD EPYC, beside string moves (docs/decisions/0015).
size_t find_lent_from() { return is_amd() ? SIZE_MAX : 16 << 10; }

uint16_t sequence_of(uint64_t message) { return static_cast<uint16_t>(message + 1); }

// What a cell holds before `message` comes: the message one round earlier, or nothing yet.
uint16_t sequence_before(uint64_t message) {
  return message < kRingCells ? uint16_t{0} : sequence_of(message - kRingCells);
}

// The flag is read without a fence behind our own store: a sleeper that sets it at the same moment may be missed, which
// its bounded sleep covers. A fence here would cost every message what this costs one sleeper in thousands.
void wake_if(std::atomic<uint32_t>& waiting, const std::function<void()>& wake_peer) {
  if (waiting.load(std::memory_order_relaxed) == 0) return;
  if (waiting.exchange(0) != 0 && wake_peer) wake_peer();
}

}  // namespace

static_assert(sizeof(RingControl) <= Ring::kBesideOffset);
static_assert(std::has_single_bit(kRingCells), "sequence numbers wrap at 2^16");

size_t Ring::bytes(size_t max_message) { return kBulkOffset + kSlots * ((max_message + kPage - 1) / kPage * kPage); }

Ring::Ring(std::shared_ptr<void> owner, std::span<std::byte> memory, size_t max_message)
    : owner_(std::move(owner)),
      control_(reinterpret_cast<RingControl*>(memory.data())),
      bulk_(memory.data() + kBulkOffset),
      slot_bytes_((bytes(max_message) - kBulkOffset) / kSlots),
      max_message_(max_message) {}

RingSender::RingSender(Ring ring, SharedMemory& memory, Clock& clock, std::string name, std::function<void()> wake_peer,
                       std::shared_ptr<SlotTrade> trade)
    : ring_(std::move(ring)),
      pipe_memory_(ring_.memory()),
      trade_(std::move(trade)),
      claims_(clock),
      name_(std::move(name)),
      wake_peer_(std::move(wake_peer)) {
  slot_of_.fill(kNoSlot);
  trade_->set_ours(ring_);
  streaming_from = kStreamFrom;
  std::random_device random;  // another container may have a process of our number, with a ring at our address
  proof_ = uint64_t{random()} << 32 | random();
  const auto address = reinterpret_cast<uint64_t>(&proof_);
  ring_.control().proof = {memory.process(), address, proof_};
}

RingSender::~RingSender() { withdraw(); }

std::byte* RingSender::reserve(size_t bytes) {
  if (bytes > ring_.max_message()) {
    fail(fmt::format("a message of {} bytes was asked for; the limit is {}", bytes, ring_.max_message()));
  }
  if (!status_.ok() || !has_room()) return nullptr;
  if (bytes <= RingCell::kInlineBytes) return reserve_at(Home::kCell, RingCell::kInlineBytes);
  const bool is_beside = reserved_ != 0 && home_ == Home::kBeside;  // and stays there, whatever comes meanwhile
  if (bytes <= Ring::kBesideBytes && (bytes < kTradedFrom || is_beside || !reserve_traded_slot())) {
    return reserve_at(Home::kBeside, Ring::kBesideBytes);
  }
  return reserve_slot(bytes) ? reserve_at(Home::kSlot, ring_.max_message()) : nullptr;
}

std::byte* RingSender::reserve_at(Home home, size_t bytes) {
  home_ = home;
  reserved_ = bytes;
  return reserved_memory();
}

std::byte* RingSender::reserved_memory() const {
  if (home_ == Home::kCell) return ring_.cell(committed_).data;
  if (home_ == Home::kBeside) return ring_.beside(committed_);
  const auto slot = static_cast<uint32_t>(slot_);
  return slot < SlotTrade::kTheirs ? ring_.slot(slot) : trade_->their_slot(slot);
}

bool RingSender::has_room() {
  return committed_ - released_ < kRingCells || (refresh() && committed_ - released_ < kRingCells);
}

bool RingSender::refresh() {
  const uint64_t released = ring_.control().released.load(std::memory_order_acquire);
  if (released < released_ || released > committed_) {
    fail(fmt::format("the receiver claims to have released {} messages of {} sent, {} before", released, committed_,
                     released_));
    return false;
  }
  for (; released_ < released; ++released_) {
    int& slot = slot_of_[released_ % kRingCells];
    if (slot != kNoSlot) free_slots_ |= 1u << slot;
    slot = kNoSlot;
  }
  return true;
}

bool RingSender::reserve_slot(size_t bytes) {
  if (reserve_traded_slot()) return true;
  streaming_from = kStreamFrom;
  if ((bytes >= kReuseFrom || free_slots_ == 0) && !refresh()) return false;
  if (free_slots_ == 0) return false;
  slot_ = last_slot_ = next_slot(bytes);
  if (bytes >= streaming_from && (used_slots_ >> slot_ & 1) != 0) {
    claims_.look(ring_.slot(static_cast<size_t>(slot_)), bytes);
    reader_distance = claims_.distance();
  }
  return true;
}

bool RingSender::reserve_traded_slot() {
  if (slot_ != kNoSlot) return true;
  traded_slots_ |= trade_->take();
  if (traded_slots_ == 0 && !may_give()) return false;
  slot_ = traded_slots_ != 0 ? std::countr_zero(traded_slots_) : next_spare_;
  streaming_from = SIZE_MAX;
  return true;
}

// Of the slots that are used in turn, or else the first that is free.
int RingSender::next_slot(size_t bytes) const {
  const auto slots = static_cast<int>(std::clamp<size_t>(kTurnBytes / bytes, 2, kPipeDepth));
  for (int i = 1; i <= slots; ++i) {
    const int slot = (last_slot_ + i) % slots;
    if ((free_slots_ >> slot & 1) != 0) return slot;
  }
  return std::countr_zero(free_slots_);
}

uint32_t RingSender::send_slot() {
  const auto slot = static_cast<uint32_t>(std::exchange(slot_, kNoSlot));
  const uint32_t bit = 1u << slot;
  if ((free_slots_ & bit) != 0) {
    free_slots_ &= ~bit;
    slot_of_[committed_ % kRingCells] = static_cast<int>(slot);
    return slot;
  }
  if ((traded_slots_ & bit) == 0) ++next_spare_;
  traded_slots_ &= ~bit;
  trade_->let_go(slot);
  return slot < SlotTrade::kTheirs ? RingPlace::kGiven + slot : RingPlace::kHome + slot - SlotTrade::kTheirs;
}

void RingSender::commit(size_t bytes, const Envelope& envelope) {
  if (!status_.ok()) return;
  if (bytes > reserved_) return fail(fmt::format("{} bytes were committed of {} reserved", bytes, reserved_));
  RingCell& cell = ring_.cell(committed_);
  if (bytes > RingCell::kInlineBytes) {
    if (home_ == Home::kSlot && bytes >= streaming_from) used_slots_ |= 1u << slot_;
    const RingPlace place{home_ == Home::kSlot ? send_slot() : RingPlace::kBeside};
    std::memcpy(cell.data, &place, sizeof(place));
  } else if (home_ != Home::kCell) {
    std::memcpy(cell.data, reserved_memory(), bytes);
    slot_ = kNoSlot;
  }
  publish(bytes, envelope);
}

void RingSender::publish(size_t bytes, const Envelope& envelope) {
  reserved_ = 0;
  home_ = Home::kCell;
  const RingHeader header{sequence_of(committed_), static_cast<uint32_t>(bytes), envelope.digest()};
  ring_.cell(committed_).header.store(header.pack(), std::memory_order_release);
  ++committed_;
  RingControl& control = ring_.control();
  if (lent_from == SIZE_MAX && control.borrows.load(std::memory_order_relaxed) != 0) lent_from = find_lent_from();
  wake_if(control.reader_waiting, wake_peer_);
}

Ticket RingSender::lend(std::span<const std::byte> bytes, const Envelope& envelope) {
  if (bytes.size() < lent_from || bytes.size() > ring_.max_message()) return Sender::send_stable(bytes, envelope);
  if (!status_.ok() || !has_room()) return 0;
  slot_ = kNoSlot;
  const RingPlace place{RingPlace::kLent, reinterpret_cast<uint64_t>(bytes.data())};
  std::memcpy(ring_.cell(committed_).data, &place, sizeof(place));
  publish(bytes.size(), envelope);
  return committed_;
}

bool RingSender::done(Ticket ticket) {
  return ticket == kCopied || ticket <= released_ || !status_.ok() || !refresh() || ticket <= released_;
}

void RingSender::set_waiting(bool waiting) { ring_.control().writer_waiting.store(waiting ? 1 : 0); }

void RingSender::fail(std::string what) {
  if (status_.ok()) status_ = Status(Code::kInternal, fmt::format("{}: {}", name_, what));
}

RingReceiver::RingReceiver(Ring ring, SharedMemory& memory, std::string name, std::function<void()> wake_peer,
                           std::shared_ptr<SlotTrade> trade)
    : ring_(std::move(ring)),
      pipe_memory_(ring_.memory()),
      memory_(memory),
      proof_(ring_.control().proof),
      trade_(std::move(trade)),
      name_(std::move(name)),
      wake_peer_(std::move(wake_peer)) {
  trade_->set_theirs(ring_);
  uint64_t found = 0;
  if (!memory_.read(proof_.process, proof_.address, std::as_writable_bytes(std::span(&found, 1)))) return;
  if (found != proof_.value) return;
  ring_.control().borrows.store(1, std::memory_order_relaxed);
  into_from = find_lent_from();
}

const Message* RingReceiver::peek() { return peeked_ ? &message_ : look({}); }

const Message* RingReceiver::receive_into(std::span<std::byte> into) { return peeked_ ? &message_ : look(into); }

const Message* RingReceiver::look(std::span<std::byte> into) {
  const RingCell& cell = ring_.cell(released_);
  const RingHeader header = RingHeader::unpack(cell.header.load(std::memory_order_acquire));
  if (header.sequence != sequence_of(released_)) return not_ready(header.sequence);
  return open(cell, header, into);
}

const Message* RingReceiver::not_ready(uint16_t sequence) {
  if (sequence != sequence_before(released_)) {
    fail(fmt::format("sequence {} where message {} was expected", sequence, released_));
  }
  return nullptr;
}

const Message* RingReceiver::open(const RingCell& cell, RingHeader header, std::span<std::byte> into) {
  if (!status_.ok()) return nullptr;
  message_ = Message{cell.data, header.length, header.digest};
  if (header.length > ring_.max_message()) {
    fail(fmt::format("message {} claims {} bytes; the limit is {}", released_, header.length, ring_.max_message()));
    return nullptr;
  }
  if (header.length > RingCell::kInlineBytes) {
    // Read once: the peer may change it between check and use.
    const uint32_t slot = *reinterpret_cast<const volatile uint32_t*>(cell.data);
    if (slot == RingPlace::kLent) {
      RingPlace place;
      std::memcpy(&place, cell.data, sizeof(place));
      if (!borrow(place.address, into)) return nullptr;
    } else if (slot == RingPlace::kBeside && header.length <= Ring::kBesideBytes) {
      message_.data = ring_.beside(released_);
    } else if (!find_slot(slot)) {
      fail(fmt::format("message {} names slot {:#x}, which is not there, or cannot come now", released_, slot));
      return nullptr;
    }
  }
  peeked_ = true;
  return &message_;
}

bool RingReceiver::find_slot(uint32_t number) {
  const uint32_t slot = number & ~(RingPlace::kGiven | RingPlace::kHome);
  if (slot >= Ring::kSlots) return false;
  const uint32_t kind = number - slot;
  if (kind == (RingPlace::kGiven | RingPlace::kHome)) return false;
  if (kind != 0) {
    const uint32_t bit = kind == RingPlace::kHome ? slot : slot + SlotTrade::kTheirs;
    if (!trade_->can_come(bit)) return false;
    coming_ = bit;
  }
  message_.data = kind == RingPlace::kHome ? trade_->our_slot(slot) : ring_.slot(slot);
  return true;
}

bool RingReceiver::borrow(uint64_t address, std::span<std::byte> into) {
  if (into.size() != message_.size) {
    if (copy_ == nullptr) copy_ = std::make_unique_for_overwrite<std::byte[]>(ring_.max_message());
    into = {copy_.get(), message_.size};
  }
  const bool read = memory_.read(proof_.process, address, into);
  // In this order: the producer's caller may change the memory only after it was withdrawn.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool withdrawn = ring_.control().withdrawn.load() != 0;
  if (!read || withdrawn) {
    fail(fmt::format("message {} of {} bytes cannot be read in the sender's memory: it {}", released_, message_.size,
                     withdrawn ? "was withdrawn" : "is gone, or the system forbids it"));
    return false;
  }
  message_.data = into.data();
  borrowed_ = true;
  announce(released_ + 1);
  return true;
}

void RingReceiver::release() {
  if (!peeked_) return;
  peeked_ = false;
  ++released_;
  if (message_.size >= kTradedFrom) trade_->hear();
  if (coming_) trade_->come(*std::exchange(coming_, std::nullopt));
  if (!std::exchange(borrowed_, false)) announce(released_);
}

void RingReceiver::announce(uint64_t released) {
  ring_.control().released.store(released, std::memory_order_release);
  wake_if(ring_.control().writer_waiting, wake_peer_);
}

void RingReceiver::set_waiting(bool waiting) { ring_.control().reader_waiting.store(waiting ? 1 : 0); }

void RingReceiver::fail(std::string what) {
  if (status_.ok()) status_ = Status(Code::kInternal, fmt::format("{}: {}", name_, what));
}

}  // namespace hocket
