// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/peer_memory.h"

#include <algorithm>

namespace hocket {

// ---- Ours

std::shared_ptr<OfferedMemory> PeerMemory::find(uint64_t allocation) {
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(allocation);
  if (found == own_.end()) return nullptr;
  found->second.used = ++uses_;
  return found->second.memory;
}

std::shared_ptr<OfferedMemory> PeerMemory::add(cuda::SharedAllocation shared) {
  const std::lock_guard lock(mutex_);
  if (own_.size() >= kMostOffered) return nullptr;
  const auto peers = static_cast<int32_t>(peers_.size()) - 1;
  Own& own = own_[shared.offer.allocation];
  own.memory = std::make_shared<OfferedMemory>(++last_, std::move(shared), peers);
  own.used = ++uses_;
  own.answered.resize(peers_.size());
  return own.memory;
}

// The driver may be busy, and is asked without the lock, for which calls and the service wait.
std::vector<std::shared_ptr<OfferedMemory>> PeerMemory::find_free() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<OfferedMemory>> found;
  for (const auto& [allocation, own] : own_) {
    if (is_free(own)) found.push_back(own.memory);
  }
  return found;
}

std::vector<std::shared_ptr<OfferedMemory>> PeerMemory::take_surplus(const cuda::Driver& driver) {
  std::vector<std::shared_ptr<OfferedMemory>> taken = find_free();
  std::erase_if(taken, [&](const auto& memory) {
    const auto* const begin = reinterpret_cast<const void*>(static_cast<uintptr_t>(memory->offer().address));
    return cuda::allocation_at(driver, begin) == memory->offer().allocation;
  });
  const std::lock_guard lock(mutex_);
  for (const auto& memory : taken) own_.erase(memory->offer().allocation);
  if (own_.size() < kMostOffered) return taken;
  auto oldest = own_.end();
  for (auto entry = own_.begin(); entry != own_.end(); ++entry) {
    const bool is_older = oldest == own_.end() || entry->second.used < oldest->second.used;
    if (is_free(entry->second) && is_older) oldest = entry;
  }
  if (oldest == own_.end()) return taken;
  taken.push_back(oldest->second.memory);
  own_.erase(oldest);
  return taken;
}

bool PeerMemory::answer(int32_t peer, uint32_t number, bool is_mapped) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(own_, [&](const auto& own) { return own.second.memory->number() == number; });
  if (found == own_.end() || found->second.answered[static_cast<size_t>(peer)]) return false;
  found->second.answered[static_cast<size_t>(peer)] = true;
  found->second.memory->answer(is_mapped);
  return true;
}

// ---- The peers'

bool PeerMemory::expect(int32_t peer, uint32_t number) {
  const std::lock_guard lock(mutex_);
  auto& theirs = peers_[static_cast<size_t>(peer)];
  // What it has taken back may still be mapped here.
  return number != 0 && theirs.size() < 2 * kMostOffered && theirs.try_emplace(number).second;
}

void PeerMemory::put(int32_t peer, uint32_t number, std::shared_ptr<const cuda::MappedMemory> mapped, size_t bytes) {
  const std::lock_guard lock(mutex_);
  peers_[static_cast<size_t>(peer)][number] = {std::move(mapped), bytes};
}

std::shared_ptr<const cuda::MappedMemory> PeerMemory::take_out(int32_t peer, uint32_t number) {
  const std::lock_guard lock(mutex_);
  auto taken = peers_[static_cast<size_t>(peer)].extract(number);
  return taken ? std::move(taken.mapped().memory) : nullptr;
}

PeerMemory::Mapped PeerMemory::of(int32_t peer, uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto& theirs = peers_[static_cast<size_t>(peer)];
  const auto found = theirs.find(number);
  return found == theirs.end() ? Mapped{} : found->second;
}

std::vector<PeerMemory::Mapped> PeerMemory::take_all() {
  const std::lock_guard lock(mutex_);
  std::vector<Mapped> all;
  for (auto& theirs : peers_) {
    for (auto& [number, mapped] : theirs) all.push_back(std::move(mapped));
    theirs.clear();
  }
  return all;
}

}  // namespace hocket
