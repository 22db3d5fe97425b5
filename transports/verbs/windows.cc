// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/windows.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"

namespace hocket {
namespace {

// The service thread registers a part for another port than the first: it takes 40 ms a GiB of small pages, on hosts as
// we know them.
constexpr size_t kLongestLate = size_t{8} << 30;

}  // namespace

VerbsWindows::VerbsWindows(System& system, Poller& poller, const VerbsTable& table, VerbsRails& rails)
    : system_(system), poller_(poller), table_(table), rails_(rails) {
  LastingMemory::of_process().join(this);
}

VerbsWindows::~VerbsWindows() { LastingMemory::of_process().leave(this); }

void VerbsWindows::expose(uint32_t window, std::span<std::byte> part) {
  const auto domain = home();
  auto made = domain != nullptr ? enlist(*domain, part) : nullptr;
  if (made == nullptr) return;
  const std::lock_guard lock(parts_mutex_);
  Part& exposed = parts_[window];
  exposed = {part, {}};
  exposed.registrations[domain.get()] = std::move(made);
}

std::unique_ptr<Registration> VerbsWindows::enlist(const WindowDomain& domain, std::span<std::byte> part) const {
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  return Registration::make(table_, domain.get(), part, kAccess, domain.port().name);
}

std::shared_ptr<WindowDomain> VerbsWindows::domain_of(size_t port) {
  auto& domain = domains_[port];
  if (domain != nullptr) {
    rails_.leave(port);  // it is counted once
  } else {
    domain = std::make_shared<WindowDomain>(table_, rails_, port);
  }
  return domain->get() != nullptr ? domain : nullptr;
}

std::shared_ptr<WindowDomain> VerbsWindows::home() {
  const std::lock_guard lock(domains_mutex_);
  const bool stays = home_ != nullptr && home_->is_up() && !home_->has_broken();
  if (stays) return home_;
  const auto port = rails_.take(system_.clock.now(), home_ != nullptr ? std::optional(home_->number()) : std::nullopt);
  if (port) home_ = domain_of(*port);
  return home_ != nullptr && home_->is_up() ? home_ : nullptr;
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

std::optional<WindowPlace> VerbsWindows::place_of(uint32_t window, const WindowDomain& domain) {
  const std::lock_guard lock(parts_mutex_);
  const auto found = parts_.find(window);
  if (found == parts_.end()) return {};
  const Part& part = found->second;
  auto& registration = found->second.registrations[&domain];
  if (registration == nullptr && part.bytes.size() <= kLongestLate) registration = enlist(domain, part.bytes);
  if (registration == nullptr) return {};
  return WindowPlace{{}, reinterpret_cast<uint64_t>(part.bytes.data()), registration->remote_key()};
}

std::string VerbsWindows::admit(int32_t peer, std::string_view card, uint32_t window) {
  const std::lock_guard lock(guests_mutex_);
  Guest& guest = guests_[peer];
  if (guest.pair == nullptr || guest.card != card) {
    guest = {};
    Result<Guest> received = receive(card);
    if (!received.ok()) {
      log_info("rank {} does not reach windows of ours: {}", peer, received.status().message());
      return {};
    }
    guest = std::move(*received);
  }
  auto place = place_of(window, *guest.domain);
  if (!place) return {};
  place->card = guest.ours;
  return encode_place(*place);
}

Result<VerbsWindows::Guest> VerbsWindows::receive(std::string_view card) {
  VerbsCard theirs;
  HOCKET_TRY(decode_card(card, CardOf::kWindow, &theirs));
  const auto taken = rails_.take_for(theirs.fabric, theirs.gid, VerbsRails::Choice::kAny, system_.clock.now());
  if (!taken) return Status(Code::kSystem, fmt::format("no port has a GID that fits {}", theirs.gid.text()));
  std::unique_lock lock(domains_mutex_);
  const auto domain = domain_of(*taken);
  lock.unlock();
  if (domain == nullptr || !domain->is_up()) return Status(Code::kSystem, "the port that fits it is not there");
  const VerbsPort& port = domain->port();
  const auto gid = choose_gid(port.gids, theirs.gid);
  auto pair = QueuePair::open(table_, port, {}, {QueuePair::Role::kTarget, 1, 0, domain->get()});
  if (!pair.ok()) return pair.status();
  HOCKET_TRY((*pair)->connect(theirs, gid->gid));
  Guest guest{std::string(card), (*pair)->card(), domain, std::move(*pair)};
  guest.ours.gid = gid->gid;
  return guest;
}

void VerbsWindows::dismiss(int32_t peer) {
  const std::lock_guard lock(guests_mutex_);
  guests_.erase(peer);
}

std::shared_ptr<RemoteEnd> VerbsWindows::open() {
  const auto domain = home();
  if (domain == nullptr) return nullptr;
  auto end = VerbsRemoteEnd::open(system_, poller_, domain);
  if (end.ok()) return std::move(*end);
  log_info("windows of peers are not reached by the device: {}", end.status().message());
  return nullptr;
}

}  // namespace hocket
