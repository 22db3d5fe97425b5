// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/remote_doors.h"

#include <utility>

namespace hocket {

RemoteDoors::RemoteDoors(System& system, Poller& poller, Ask ask, Describe describe)
    : system_(system), poller_(poller), ask_(std::move(ask)), describe_(std::move(describe)) {}

// What is registered may be long, and peers are served meanwhile.
void RemoteDoors::expose(std::span<const Transport* const> transports, uint32_t window, std::span<std::byte> part) {
  for (RemoteMemory* each : memories(transports)) each->expose(window, part);
}

std::vector<RemoteMemory*> RemoteDoors::memories(std::span<const Transport* const> transports) {
  const std::lock_guard lock(mutex_);
  transports_.assign(transports.begin(), transports.end());
  std::vector<RemoteMemory*> all;
  for (const Transport* transport : transports) {
    const auto* remote = dynamic_cast<const RemoteTransport*>(transport);
    if (remote != nullptr && !memories_.contains(transport)) {
      memories_[transport] = remote->remote_memory(system_, poller_);
    }
  }
  for (const auto& [transport, made] : memories_) {
    if (made != nullptr) all.push_back(made.get());
  }
  return all;
}

void RemoteDoors::withdraw(uint32_t window) {
  const std::lock_guard lock(mutex_);
  for (const auto& [transport, made] : memories_) {
    if (made != nullptr) made->withdraw(window);
  }
  for (const auto& [peer, door] : doors_) door->forget(window);
}

RemoteMemory* RemoteDoors::memory(int32_t peer) const {
  if (transports_.empty()) return nullptr;
  const auto found = memories_.find(transports_[static_cast<size_t>(peer)]);
  return found == memories_.end() ? nullptr : found->second.get();
}

std::string RemoteDoors::admit(int32_t peer, std::string_view card, uint32_t window) {
  const std::lock_guard lock(mutex_);
  RemoteMemory* const exposed = memory(peer);
  return exposed == nullptr ? std::string() : exposed->admit(peer, card, window);
}

void RemoteDoors::dismiss(int32_t peer) {
  const std::lock_guard lock(mutex_);
  if (RemoteMemory* const exposed = memory(peer); exposed != nullptr) exposed->dismiss(peer);
}

RemoteDoor* RemoteDoors::to(int32_t peer) {
  const std::lock_guard lock(mutex_);
  RemoteMemory* const own = memory(peer);
  if (own == nullptr) return nullptr;
  std::unique_ptr<RemoteDoor>& door = doors_[peer];
  if (door == nullptr) {
    const auto ask = [this, peer](const RemoteRequest& request) { return ask_(peer, request); };
    door = std::make_unique<RemoteDoor>(*own, system_.clock, ask, describe_(peer));
  }
  return door.get();
}

void RemoteDoors::shut() {
  const std::lock_guard lock(mutex_);
  doors_.clear();
  memories_.clear();
  transports_.clear();
}

}  // namespace hocket
