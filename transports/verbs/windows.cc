// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/windows.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"

namespace hocket {

VerbsWindows::VerbsWindows(System& system, Poller& poller, std::shared_ptr<WindowDomain> domain)
    : system_(system), poller_(poller), domain_(std::move(domain)) {
  LastingMemory::of_process().join(this);
}

VerbsWindows::~VerbsWindows() { LastingMemory::of_process().leave(this); }

void VerbsWindows::expose(uint32_t window, std::span<std::byte> part) {
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  auto made = Registration::make(domain_->table(), domain_->get(), part, kAccess, domain_->port().name);
  if (made == nullptr) return;
  const std::lock_guard lock(parts_mutex_);
  parts_[window] = {part, std::move(made)};
}

void VerbsWindows::withdraw(uint32_t window) {
  const std::lock_guard lock(parts_mutex_);
  parts_.erase(window);
}

// A device would go on with the old pages: peers come by another way then.
void VerbsWindows::renew(LastingMemory::Bytes range) {
  const std::lock_guard lock(parts_mutex_);
  std::erase_if(parts_, [&](const auto& entry) { return overlap(entry.second.bytes, range); });
}

std::optional<WindowPlace> VerbsWindows::place_of(uint32_t window) {
  const std::lock_guard lock(parts_mutex_);
  const auto found = parts_.find(window);
  if (found == parts_.end()) return {};
  const Part& part = found->second;
  return WindowPlace{{}, reinterpret_cast<uint64_t>(part.bytes.data()), part.registration->remote_key()};
}

std::string VerbsWindows::admit(int32_t peer, std::string_view card, uint32_t window) {
  auto place = place_of(window);
  if (!place || !domain_->is_up()) return {};
  const std::lock_guard lock(guests_mutex_);
  Guest& guest = guests_[peer];
  if (guest.pair == nullptr || guest.card != card) {
    guest = {};
    Result<Guest> received = receive(card);
    if (!received.ok()) {
      log_info("rank {} does not reach windows of ours by {}: {}", peer, domain_->port().name,
               received.status().message());
      return {};
    }
    guest = std::move(*received);
  }
  place->card = guest.ours;
  return encode_place(*place);
}

Result<VerbsWindows::Guest> VerbsWindows::receive(std::string_view card) const {
  const VerbsPort& port = domain_->port();
  VerbsCard theirs;
  HOCKET_TRY(decode_card(card, CardOf::kWindow, &theirs));
  const auto gid = theirs.fabric == port.fabric ? choose_gid(port.gids, theirs.gid) : std::nullopt;
  if (!gid) return Status(Code::kSystem, fmt::format("it has no GID that fits {}", theirs.gid.text()));
  auto pair = QueuePair::open(domain_->table(), port, {}, {QueuePair::Role::kTarget, 1, 0, domain_->get()});
  if (!pair.ok()) return pair.status();
  HOCKET_TRY((*pair)->connect(theirs, gid->gid));
  Guest guest{std::string(card), (*pair)->card(), std::move(*pair)};
  guest.ours.gid = gid->gid;
  return guest;
}

void VerbsWindows::dismiss(int32_t peer) {
  const std::lock_guard lock(guests_mutex_);
  guests_.erase(peer);
}

std::shared_ptr<RemoteEnd> VerbsWindows::open() {
  if (!domain_->is_up()) return nullptr;
  auto end = VerbsRemoteEnd::open(system_, poller_, domain_);
  if (end.ok()) return std::move(*end);
  log_info("windows of peers are not reached by the device: {}", end.status().message());
  return nullptr;
}

}  // namespace hocket
