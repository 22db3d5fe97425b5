// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/registrations.h"

#include <algorithm>

namespace hocket {
namespace {

bool holds(LastingMemory::Bytes range, LastingMemory::Bytes bytes) {
  return bytes.data() >= range.data() && bytes.data() + bytes.size() <= range.data() + range.size();
}

}  // namespace

Registrations::Registrations(const VerbsTable& table, ibv_pd* domain, int access, std::string device)
    : table_(table), domain_(domain), access_(access), device_(std::move(device)) {
  LastingMemory::of_process().join(this);
}

Registrations::~Registrations() { LastingMemory::of_process().leave(this); }

std::optional<Registrations::Keys> Registrations::keys_for(LastingMemory::Bytes bytes) {
  const auto look = [&]() -> std::optional<std::optional<Keys>> {
    const std::lock_guard lock(mutex_);
    const Entry* found = find(bytes);
    if (found == nullptr) return {};
    if (found->registration == nullptr) return std::optional<Keys>();
    return Keys{found->registration->local_key(), found->registration->remote_key()};
  };
  if (const auto known = look()) return *known;
  LastingMemory::of_process().with(bytes, [&](LastingMemory::Bytes range, const BeyondHost* beyond) {
    const std::lock_guard lock(mutex_);
    entries_.push_back({range, Registration::make(table_, domain_, range, access_, device_, beyond)});
  });
  return look().value_or(std::nullopt);
}

const Registrations::Entry* Registrations::find(LastingMemory::Bytes bytes) const {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return !entry.retired && holds(entry.range, bytes); });
  return found == entries_.end() ? nullptr : &*found;
}

void Registrations::forget(LastingMemory::Bytes range) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.range.data() == range.data() && entry.range.size() == range.size();
  });
}

void Registrations::renew(LastingMemory::Bytes range) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) entry.retired = entry.retired || overlap(entry.range, range);
}

}  // namespace hocket
