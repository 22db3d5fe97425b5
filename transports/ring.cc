// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <utility>

#include "transports/borrowing.h"
#include "transports/processor.h"

namespace hocket {
namespace {

constexpr size_t kPage = 4096;

// For one message of any length.
constexpr size_t slot_bytes(size_t max_message) { return (max_message + kPage - 1) / kPage * kPage; }

// From here on looking for freed units before each message costs little, and few places in turn stay in the cache.
constexpr size_t kReuseFrom = 16 << 10;
// As many messages take turns as hold this, and two at least, unless all units do.
constexpr size_t kTurnBytes = 128 << 10;

// Two lines are claimed sooner than a slot is traded.
constexpr size_t kTradedFrom = 129;

// Shorter messages are as fast through plain stores, which leave them in this core's cache.
constexpr size_t kStreamFrom = 4 << 10;

// Whatever a peer says that it likes to read: shorter messages are as fast through cells and units.
constexpr uint32_t kShortestLent = 16 << 10;

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

// Of so many units, from the first on.
uint64_t mask(int first, int units) { return (~uint64_t{0} >> (Ring::kUnits - units)) << first; }

}  // namespace

static_assert(sizeof(RingControl) <= Ring::kBesideOffset);
static_assert(std::has_single_bit(kRingCells), "sequence numbers wrap at 2^16");

size_t Ring::bytes(size_t max_message) {
  return kBulkOffset + (kPipeDepth + size_t{kMostGiven}) * slot_bytes(max_message);
}

Ring::Ring(std::shared_ptr<void> owner, std::span<std::byte> memory, size_t max_message)
    : owner_(std::move(owner)),
      control_(reinterpret_cast<RingControl*>(memory.data())),
      bulk_(memory.data() + kBulkOffset),
      unit_bytes_(slot_bytes(max_message) / kSlotUnits),
      max_message_(max_message) {}

bool may_widen(const PipeContext& context) { return is_amd() && !context.shares_cores; }

RingSender::RingSender(Ring ring, SharedMemory& memory, Clock& clock, std::string name, std::function<void()> wake_peer,
                       std::shared_ptr<SlotTrade> trade, bool may_widen, std::shared_ptr<Budget> budget)
    : ring_(std::move(ring)),
      pipe_memory_(ring_.memory()),
      may_widen_(may_widen),
      trade_(std::move(trade)),
      claims_(clock),
      held_(budget, ring_.memory().size()),
      held_of_theirs_(std::move(budget), Ring::kMostGiven * Ring::kSlotUnits * ring_.unit_bytes()),
      name_(std::move(name)),
      wake_peer_(std::move(wake_peer)) {
  held_.write(0, sizeof(RingControl));
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
  // It stays there, whatever comes meanwhile.
  if (bytes <= reserved_ && (home_ == Home::kBeside || home_ == Home::kUnits)) return reserved_memory();
  if (bytes <= Ring::kBesideBytes && (bytes < kTradedFrom || !reserve_traded_slot(bytes))) {
    return reserve_at(Home::kBeside, Ring::kBesideBytes);
  }
  if (reserve_traded_slot(bytes)) return reserve_at(Home::kSlot, ring_.max_message());
  if (!reserve_units(bytes)) return nullptr;
  return reserve_at(Home::kUnits, std::min(static_cast<size_t>(units_) * ring_.unit_bytes(), ring_.max_message()));
}

std::byte* RingSender::reserve_at(Home home, size_t bytes) {
  home_ = home;
  reserved_ = bytes;
  return reserved_memory();
}

std::byte* RingSender::reserved_memory() const {
  if (home_ == Home::kCell) return ring_.cell(committed_).data;
  if (home_ == Home::kBeside) return ring_.beside(committed_);
  if (home_ == Home::kUnits) return ring_.unit(static_cast<size_t>(place_));
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
    const uint64_t units = std::exchange(units_of_[released_ % kRingCells], 0);
    free_units_ |= units;
    in_units_ -= units != 0 ? 1 : 0;
  }
  return true;
}

bool RingSender::reserve_traded_slot(size_t bytes) {
  if (slot_ != kNoSlot) return true;
  traded_slots_ |= trade_->take();
  if (traded_slots_ == 0 && !may_give()) return false;
  const int slot = traded_slots_ != 0 ? std::countr_zero(traded_slots_) : next_spare_;
  if (const auto [held, at] = holding_of(static_cast<uint32_t>(slot)); !held.allows(at, bytes)) return false;
  slot_ = slot;
  streaming_from = SIZE_MAX;
  return true;
}

int RingSender::units_for(size_t bytes) const {
  const size_t needed = (bytes + ring_.unit_bytes() - 1) / ring_.unit_bytes();
  return static_cast<int>(std::bit_ceil(needed));
}

bool RingSender::reserve_units(size_t bytes) {
  streaming_from = kStreamFrom;
  const bool is_wide = wide_ && bytes >= streaming_from;
  if (!is_wide && bytes >= kReuseFrom && !refresh()) return false;
  const int units = units_for(bytes);
  const int places = Ring::kUnits / units;
  const int in_turn = is_wide ? places : static_cast<int>(std::clamp<size_t>(kTurnBytes / bytes, 2, kPipeDepth));
  const int next = place_ / units + 1;
  auto place = free_place(next, units, in_turn);
  if (!place && !refresh()) return false;
  if (!place) place = free_place(next, units, in_turn);
  if (!place && in_units_ < kPipeDepth) place = free_place(0, units, places);
  if (!place) return false;
  place_ = *place;
  units_ = units;
  if (bytes >= streaming_from && (read_units_ >> place_ & 1) != 0) look_at_reader(bytes);
  return true;
}

std::optional<int> RingSender::free_place(int from, int units, int places) const {
  for (int i = 0; i < places; ++i) {
    const int place = (from + i) % places * units;
    if ((free_units_ & mask(place, units)) == mask(place, units)) return place;
  }
  return {};
}

void RingSender::look_at_reader(size_t bytes) {
  claims_.look(ring_.unit(static_cast<size_t>(place_)), bytes);
  reader_distance = claims_.distance();
  if (!wide_ && may_widen_ && claims_.is_sure() && reader_distance == Distance::kMiddle) widen();
}

// All units are held at once: other pipes that would take as much shall know.
void RingSender::widen() {
  const size_t bytes = Ring::kUnits * ring_.unit_bytes();
  wide_ = held_.holding().allows(bytes - std::min(bytes, held_.holding().held()));
  if (wide_) held_.write(Ring::kBulkOffset, bytes);
}

// The reserved memory. What lies beside the cells counts as a whole: short messages shall cost nothing here.
void RingSender::hold(size_t bytes) {
  if (home_ == Home::kSlot) {
    const auto [held, at] = holding_of(static_cast<uint32_t>(slot_));
    held.write(at, bytes);
  } else if (home_ == Home::kUnits) {
    held_.write(static_cast<size_t>(reserved_memory() - ring_.memory().data()), bytes);
  } else if (!std::exchange(holds_beside_, true)) {
    held_.write(Ring::kBesideOffset, Ring::kBulkOffset - Ring::kBesideOffset);
  }
}

std::pair<PageHolding&, size_t> RingSender::holding_of(uint32_t slot) {
  if (slot < SlotTrade::kTheirs) return {held_, static_cast<size_t>(ring_.slot(slot) - ring_.memory().data())};
  return {held_of_theirs_, (slot - SlotTrade::kTheirs) * Ring::kSlotUnits * ring_.unit_bytes()};
}

uint32_t RingSender::send_units(size_t bytes) {
  const uint64_t taken = mask(place_, units_);
  free_units_ &= ~taken;
  units_of_[committed_ % kRingCells] = taken;
  ++in_units_;
  if (bytes < streaming_from) return static_cast<uint32_t>(place_);
  read_units_ |= uint64_t{1} << place_;
  const bool is_shared = wide_ && reader_distance == Distance::kNear;
  return static_cast<uint32_t>(place_) + (is_shared ? RingPlace::kShared : 0);
}

uint32_t RingSender::send_slot() {
  const auto slot = static_cast<uint32_t>(std::exchange(slot_, kNoSlot));
  if ((traded_slots_ >> slot & 1) == 0) ++next_spare_;
  traded_slots_ &= ~(1u << slot);
  trade_->let_go(slot);
  return slot < SlotTrade::kTheirs ? RingPlace::kGiven + slot : RingPlace::kHome + slot - SlotTrade::kTheirs;
}

void RingSender::commit(size_t bytes, Envelope envelope) {
  if (!status_.ok()) return;
  if (bytes > reserved_) return fail(fmt::format("{} bytes were committed of {} reserved", bytes, reserved_));
  RingCell& cell = ring_.cell(committed_);
  if (bytes > RingCell::kInlineBytes) {
    if (home_ != Home::kBeside || !holds_beside_) hold(bytes);
    const RingPlace place{home_ == Home::kSlot    ? send_slot()
                          : home_ == Home::kUnits ? send_units(bytes)
                                                  : RingPlace::kBeside};
    std::memcpy(cell.data, &place, sizeof(place));
  } else if (home_ != Home::kCell) {
    std::memcpy(cell.data, reserved_memory(), bytes);
    slot_ = kNoSlot;
  }
  publish(bytes, envelope);
}

void RingSender::publish(size_t bytes, Envelope envelope) {
  const size_t beside = home_ == Home::kBeside ? bytes : 0;
  reserved_ = 0;
  home_ = Home::kCell;
  const RingHeader header{sequence_of(committed_), static_cast<uint32_t>(bytes), envelope.digest()};
  ring_.cell(committed_).header.store(header.pack(), std::memory_order_release);
  ++committed_;
  if (trade_->was_answered()) claim_next(beside);
  RingControl& control = ring_.control();
  if (lent_from == SIZE_MAX) learn_what_is_lent();
  wake_if(control.reader_waiting, wake_peer_);
}

void RingSender::learn_what_is_lent() {
  const uint32_t from = ring_.control().borrows_from.load(std::memory_order_relaxed);
  if (from != 0) lent_from = std::max(from, kShortestLent);
}

void RingSender::claim_next(size_t beside) {
  if (committed_ - released_ == kRingCells) return;  // a message may be there
  const auto claim = [](std::byte* line) { *reinterpret_cast<volatile uint64_t*>(line) = 0; };
  for (size_t at = 0; at < beside; at += kCacheLine) claim(ring_.beside(committed_) + at);
  claim(ring_.cell(committed_).data);
}

Ticket RingSender::lend(std::span<const std::byte> bytes, Envelope envelope) {
  if (bytes.size() < lent_from || bytes.size() > ring_.max_message()) return Sender::send_stable(bytes, envelope);
  if (!status_.ok() || !has_room()) return 0;
  slot_ = kNoSlot;
  home_ = Home::kCell;
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
                           std::shared_ptr<SlotTrade> trade, std::shared_ptr<Budget> budget, bool shares_cores)
    : ring_(std::move(ring)),
      pipe_memory_(ring_.memory()),
      memory_(memory),
      proof_(ring_.control().proof),
      trade_(std::move(trade)),
      held_(std::move(budget)),
      name_(std::move(name)),
      wake_peer_(std::move(wake_peer)) {
  trade_->set_theirs(ring_);
  uint64_t found = 0;
  if (!memory_.read(proof_.process, proof_.address, std::as_writable_bytes(std::span(&found, 1)))) return;
  if (found != proof_.value) return;
  into_from = borrows_from(memory_, shares_cores);
  lands_at_once = true;
  if (into_from < UINT32_MAX)
    ring_.control().borrows_from.store(static_cast<uint32_t>(into_from), std::memory_order_relaxed);
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
    } else if (!(find_units(slot) || find_slot(slot))) {
      fail(fmt::format("message {} names place {:#x}, which is not there, or cannot come now", released_, slot));
      return nullptr;
    }
  }
  peeked_ = true;
  return &message_;
}

bool RingReceiver::find_units(uint32_t number) {
  const uint32_t first = number & ~RingPlace::kShared;
  if (first >= Ring::kUnits || message_.size > (Ring::kUnits - first) * ring_.unit_bytes()) return false;
  message_.data = ring_.unit(first);
  message_.in_shared_cache = first != number;
  return true;
}

bool RingReceiver::find_slot(uint32_t number) {
  const uint32_t slot = number & ~(RingPlace::kGiven | RingPlace::kHome);
  const uint32_t kind = number - slot;
  if (slot >= Ring::kMostGiven || kind == 0 || kind == (RingPlace::kGiven | RingPlace::kHome)) return false;
  const uint32_t bit = kind == RingPlace::kHome ? slot : slot + SlotTrade::kTheirs;
  if (!trade_->can_come(bit)) return false;
  coming_ = bit;
  message_.data = kind == RingPlace::kHome ? trade_->our_slot(slot) : ring_.slot(slot);
  return true;
}

bool RingReceiver::borrow(uint64_t address, std::span<std::byte> into) {
  if (into.size() != message_.size) {
    if (copy_ == nullptr) copy_ = std::make_unique_for_overwrite<std::byte[]>(ring_.max_message());
    held_.grow_to(message_.size);
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
  trade_->answer();
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
