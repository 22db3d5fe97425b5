// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/remote_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace hocket {
namespace {

constexpr uint32_t kSends = 16;
constexpr size_t kLongestPiece = 1 << 20;  // of memory that the device uses in place
// Asking the time is done once in so many looks.
constexpr uint32_t kWatchEvery = 256;
// So often a port is asked whether it is up, at most.
constexpr Duration kAskEvery = std::chrono::milliseconds(100);

}  // namespace

// ---- The domain

WindowDomain::WindowDomain(const VerbsTable& table, VerbsRails& rails, size_t port)
    : table_(table), rails_(rails), port_(port), domain_(table.alloc_pd(rails.port(port).context)) {}

WindowDomain::~WindowDomain() {
  if (domain_ != nullptr) table_.dealloc_pd(domain_);
  rails_.leave(port_);
}

// ---- What travels

std::string encode_place(const WindowPlace& place) {
  Writer writer;
  writer.raw(encode_card(CardOf::kWindow, place.card));
  writer.u64(place.address);
  writer.u32(place.key);
  return writer.take();
}

Status decode_place(std::string_view text, uint64_t bytes, WindowPlace* place) {
  if (text.size() != WindowPlace::kBytes) {
    return Status(Code::kInternal, fmt::format("{} bytes where {} tell of a window", text.size(), WindowPlace::kBytes));
  }
  HOCKET_TRY(decode_card(text.substr(0, VerbsCard::kBytes), CardOf::kWindow, &place->card));
  Reader reader(text.substr(VerbsCard::kBytes));
  place->address = reader.u64();
  place->key = reader.u32();
  if (place->address != 0 && place->address <= UINT64_MAX - bytes) return {};
  return Status(Code::kInternal, fmt::format("a window of {} bytes at address {:#x}", bytes, place->address));
}

// ---- A transfer

class VerbsTransfer final : public RemoteTransfer {
 public:
  VerbsTransfer(std::shared_ptr<VerbsRemoteEnd> end, uint64_t address, uint32_t key, std::span<std::byte> local,
                bool puts)
      : end_(std::move(end)), address_(address), key_(key), local_(local), puts_(puts) {}
  ~VerbsTransfer() override;

  Status advance() override;
  size_t moved() const override { return moved_; }
  bool done() const override { return moved_ == local_.size() && pieces_.empty(); }
  Status arm() override {
    const std::lock_guard lock(end_->mutex_);
    return end_->arm();
  }

 private:
  struct Piece {
    uint64_t number = 0;  // of the send
    std::span<std::byte> local;
    std::byte* slot = nullptr;  // null: in place
  };

  QueuePair& pair() { return *end_->pair_; }
  void take_what_is_done();
  Status post();
  // False: there is no room for it now.
  Result<bool> post_piece();
  Status post_last_read();

  const std::shared_ptr<VerbsRemoteEnd> end_;
  const uint64_t address_;
  const uint32_t key_;
  const std::span<std::byte> local_;  // which a put only reads
  const bool puts_;
  std::deque<Piece> pieces_;
  size_t posted_ = 0;
  size_t moved_ = 0;
  bool confirms_ = false;  // the read after a put is posted
};

// Who leaves before it is done does not let the device go on.
VerbsTransfer::~VerbsTransfer() {
  const std::lock_guard lock(end_->mutex_);
  if (!pieces_.empty()) (void)end_->end(Status(Code::kRemote, "a call was given up"));
}

Status VerbsTransfer::advance() {
  const std::lock_guard lock(end_->mutex_);
  HOCKET_TRY(end_->poll());
  take_what_is_done();
  const Status posted = post();
  return posted.ok() ? posted : end_->lose(posted);
}

void VerbsTransfer::take_what_is_done() {
  while (!pieces_.empty() && pieces_.front().number <= pair().completed()) {
    const Piece piece = pieces_.front();
    pieces_.pop_front();
    moved_ += piece.local.size();
    if (piece.slot == nullptr) continue;
    if (!puts_) std::memcpy(piece.local.data(), piece.slot, piece.local.size());
    end_->give_slot(piece.slot);
  }
}

Status VerbsTransfer::post() {
  while (posted_ < local_.size() && pair().has_room()) {
    const Result<bool> posted = post_piece();
    if (!posted.ok()) return posted.status();
    if (!*posted) return {};
  }
  if (!puts_ || posted_ < local_.size() || confirms_ || local_.empty() || !pair().has_room()) return {};
  return post_last_read();
}

Result<bool> VerbsTransfer::post_piece() {
  const std::span<std::byte> rest = local_.subspan(posted_);
  Piece piece{0, rest.first(std::min(rest.size(), kLongestPiece)), nullptr};
  const bool in_place = puts_ ? pair().can_put(piece.local) : pair().can_use(piece.local);
  if (!in_place) {
    piece.slot = end_->take_slot();
    if (piece.slot == nullptr) return false;
    piece.local = rest.first(std::min(rest.size(), VerbsRemoteEnd::kSlot));
  }
  const std::span<std::byte> used = in_place ? piece.local : std::span(piece.slot, piece.local.size());
  if (puts_ && !in_place) std::memcpy(used.data(), piece.local.data(), used.size());
  const uint64_t address = address_ + posted_;
  HOCKET_TRY(puts_ ? pair().put(used, address, key_) : pair().read(used, address, key_));
  piece.number = pair().sent();
  posted_ += piece.local.size();
  pieces_.push_back(piece);
  return true;
}

// Of what was written last.
Status VerbsTransfer::post_last_read() {
  const size_t bytes = std::min(end_->trash().size(), local_.size());
  HOCKET_TRY(pair().read(end_->trash().first(bytes), address_ + local_.size() - bytes, key_));
  pieces_.push_back({pair().sent(), {}, nullptr});
  confirms_ = true;
  return {};
}

// ---- The end

Result<std::shared_ptr<RemoteEnd>> VerbsRemoteEnd::open(System& system, Poller& poller,
                                                        std::shared_ptr<WindowDomain> domain) {
  std::shared_ptr<VerbsRemoteEnd> made(new VerbsRemoteEnd(system, poller, std::move(domain)));
  HOCKET_TRY(made->prepare());
  return std::shared_ptr<RemoteEnd>(std::move(made));
}

VerbsRemoteEnd::VerbsRemoteEnd(System& system, Poller& poller, std::shared_ptr<WindowDomain> domain)
    : system_(system), poller_(poller), domain_(std::move(domain)), memory_(kSlots * kSlot + sizeof(uint64_t)) {}

VerbsRemoteEnd::~VerbsRemoteEnd() { (void)end(Status(Code::kRemote, "it is not needed any more")); }

Status VerbsRemoteEnd::prepare() {
  const VerbsPort& port = domain_->port();
  const auto gid = choose_gid(port.gids, {});
  if (!gid) return Status(Code::kSystem, fmt::format("{} has no GID", port.name));
  gid_ = gid->gid;
  auto pair =
      QueuePair::open(domain_->table(), port, memory_.bytes(), {QueuePair::Role::kAccessor, kSends, 0, domain_->get()});
  if (!pair.ok()) return pair.status();
  HOCKET_TRY(poller_.add((*pair)->handle()));
  pair_ = std::move(*pair);
  VerbsCard card = pair_->card();
  card.gid = gid_;
  card_ = encode_card(CardOf::kWindow, card);
  return {};
}

Status VerbsRemoteEnd::enter(uint32_t window, std::string_view answer, uint64_t bytes) {
  WindowPlace place;
  HOCKET_TRY(decode_place(answer, bytes, &place));
  const std::string_view card = answer.substr(0, VerbsCard::kBytes);
  const std::lock_guard lock(mutex_);
  HOCKET_TRY(ended_);
  if (peer_card_.empty()) {
    if (const Status connected = pair_->connect(place.card, gid_); !connected.ok()) return lose(connected);
    peer_card_ = card;
    silence_.end(system_.clock.now());
  }
  if (peer_card_ != card) return Status(Code::kInternal, "another card than before");
  places_[window] = place;
  return {};
}

std::unique_ptr<RemoteTransfer> VerbsRemoteEnd::put(uint32_t window, uint64_t offset, std::span<const std::byte> from) {
  return transfer(window, offset, {const_cast<std::byte*>(from.data()), from.size()}, true);
}

std::unique_ptr<RemoteTransfer> VerbsRemoteEnd::get(uint32_t window, uint64_t offset, std::span<std::byte> into) {
  return transfer(window, offset, into, false);
}

std::unique_ptr<RemoteTransfer> VerbsRemoteEnd::transfer(uint32_t window, uint64_t offset, std::span<std::byte> local,
                                                         bool puts) {
  const std::lock_guard lock(mutex_);
  const WindowPlace& place = places_.at(window);
  return std::make_unique<VerbsTransfer>(shared_from_this(), place.address + offset, place.key, local, puts);
}

Status VerbsRemoteEnd::poll() {
  HOCKET_TRY(ended_);
  RingAmount told;  // nothing: the peer sends nothing here
  const uint64_t before = pair_->completed();
  const Status polled = pair_->poll(&told);
  // A window that is there no more is no port's fault.
  if (!polled.ok()) return pair_->was_refused() ? end(polled) : lose(polled);
  if (before == 0 && pair_->completed() > 0) domain_->set_broken(false);
  looks_ = pair_->completed() > before ? 0 : looks_ + 1;
  return looks_ % kWatchEvery == kWatchEvery - 1 ? watch() : Status();
}

Status VerbsRemoteEnd::watch() {
  const Time now = system_.clock.now();
  if (now >= next_watch_) {
    next_watch_ = now + kAskEvery;
    if (!domain_->is_up()) return lose(Status(Code::kRemote, fmt::format("{} is down", domain_->port().name)));
  }
  if (!silence_.is_too_long(*pair_, now)) return {};
  return lose(Status(Code::kRemote, fmt::format("{}: {}", domain_->port().name, Silence::kReason)));
}

Status VerbsRemoteEnd::arm() {
  HOCKET_TRY(ended_);
  const Status armed = pair_->arm();
  return armed.ok() ? watch() : lose(armed);
}

Status VerbsRemoteEnd::lose(const Status& why) {
  domain_->set_broken(true);
  return end(why);
}

Status VerbsRemoteEnd::end(Status why) {
  if (pair_ == nullptr) return ended_;
  poller_.remove(pair_->handle());
  pair_.reset();
  return ended_ = std::move(why);
}

std::byte* VerbsRemoteEnd::take_slot() {
  const auto free = std::ranges::find(slots_, false);
  if (free == slots_.end()) return nullptr;
  *free = true;
  return memory_.bytes().data() + static_cast<size_t>(free - slots_.begin()) * kSlot;
}

}  // namespace hocket
