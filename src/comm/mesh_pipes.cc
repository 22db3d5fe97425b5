// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pipes are looked up under a lock: callers keep what they found.
#include "comm/mesh_pipes.h"

namespace hocket {

Sender* PipeTable::sender(const PipeName& name, bool* must_open) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = senders_.try_emplace(name);
  *must_open = is_new;
  return found->second.get();
}

Sender* PipeTable::find_sender(const PipeName& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = senders_.find(name);
  return found == senders_.end() ? nullptr : found->second.get();
}

Receiver* PipeTable::receiver(const PipeName& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = receivers_.find(name);
  return found == receivers_.end() ? nullptr : found->second.get();
}

uint32_t PipeTable::messages(const PipeName& name, PipeEnd end) const {
  const std::lock_guard lock(mutex_);
  const auto count = [&name](const auto& ends) {
    const auto found = ends.find(name);
    return found == ends.end() || found->second == nullptr ? 0 : found->second->messages.get();
  };
  return end == PipeEnd::kSender ? count(senders_) : count(receivers_);
}

void PipeTable::note_released(const PipeName& name, uint32_t messages) const {
  const std::lock_guard lock(mutex_);
  const auto found = senders_.find(name);
  if (found != senders_.end() && found->second != nullptr) found->second->note_released(messages);
}

bool PipeTable::put(const PipeName& name, std::unique_ptr<Sender> sender) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Sender>& place = senders_[name];
  if (place != nullptr) return false;
  place = std::move(sender);
  return true;
}

bool PipeTable::put(const PipeName& name, std::unique_ptr<Receiver> receiver) {
  const std::lock_guard lock(mutex_);
  return receivers_.try_emplace(name, std::move(receiver)).second;
}

void PipeTable::abandon(const PipeName& name) {
  const std::lock_guard lock(mutex_);
  senders_.erase(name);
}

std::shared_ptr<Ties> PipeTable::ties(const PipeName& name, const Transport& transport) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Ties>& found = ties_[{name, &transport}];
  if (found == nullptr) found = transport.make_ties();
  return found;
}

bool PipeTable::flush() {
  std::vector<Sender*> senders;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, sender] : senders_) {
      if (sender != nullptr) senders.push_back(sender.get());
    }
  }
  bool flushed = true;
  for (Sender* sender : senders) {
    const bool works = sender->progress().ok();
    if (works && !sender->flushed() && !sender->all_released()) flushed = false;
  }
  return flushed;
}

void PipeTable::clear() {
  std::map<PipeName, std::unique_ptr<Sender>> senders;
  std::map<PipeName, std::unique_ptr<Receiver>> receivers;
  const std::lock_guard lock(mutex_);
  senders.swap(senders_);
  receivers.swap(receivers_);
  ties_.clear();
}

PeerWaker::~PeerWaker() {
  if (handle_ != kNoHandle) network_.close(handle_);
}

void PeerWaker::set(Handle handle) {
  Handle none = kNoHandle;
  if (!handle_.compare_exchange_strong(none, handle)) network_.close(handle);
}

void PeerWaker::wake() const {
  const Handle handle = handle_.load(std::memory_order_acquire);
  if (handle != kNoHandle) network_.wake(handle);
}

}  // namespace hocket
