// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/registrations.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace hocket {
namespace {

std::atomic<size_t> sum_of_all = 0;

// Half of what may be locked: the other half is for rings, without which there is no pipe.
size_t most_of_all() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur / 2;
}

// False, and nothing is counted: it would be too much.
bool count(size_t bytes) {
  if (sum_of_all.fetch_add(bytes) + bytes <= most_of_all()) return true;
  sum_of_all -= bytes;
  return false;
}

bool holds(LastingMemory::Bytes range, LastingMemory::Bytes bytes) {
  return bytes.data() >= range.data() && bytes.data() + bytes.size() <= range.data() + range.size();
}

}  // namespace

Registrations::Registrations(const VerbsTable& table, ibv_pd* domain, int access, std::string device)
    : table_(table), domain_(domain), access_(access), device_(std::move(device)) {
  LastingMemory::of_process().join(this);
}

Registrations::~Registrations() {
  LastingMemory::of_process().leave(this);
  for (const Entry& entry : entries_) undo(entry);
}

std::optional<Registrations::Keys> Registrations::keys_for(LastingMemory::Bytes bytes) {
  const auto look = [&]() -> std::optional<std::optional<Keys>> {
    const std::lock_guard lock(mutex_);
    const Entry* found = find(bytes);
    if (found == nullptr) return {};
    if (found->region == nullptr) return std::optional<Keys>();
    return Keys{found->region->lkey, found->region->rkey};
  };
  if (const auto known = look()) return *known;
  LastingMemory::of_process().with(bytes, [&](LastingMemory::Bytes range) {
    const std::lock_guard lock(mutex_);
    entries_.push_back({range, make(range)});
  });
  return look().value_or(std::nullopt);
}

const Registrations::Entry* Registrations::find(LastingMemory::Bytes bytes) const {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return !entry.retired && holds(entry.range, bytes); });
  return found == entries_.end() ? nullptr : &*found;
}

ibv_mr* Registrations::make(LastingMemory::Bytes range) {
  if (!count(range.size())) return nullptr;
  ibv_mr* region = table_.reg_mr(domain_, const_cast<std::byte*>(range.data()), range.size(), access_);
  if (region == nullptr) {
    sum_of_all -= range.size();
    log_info("{} does not register {} bytes ({}): messages from there are copied", device_, range.size(),
             std::strerror(errno));
  }
  return region;
}

void Registrations::undo(const Entry& entry) {
  if (entry.region == nullptr) return;
  table_.dereg_mr(entry.region);
  sum_of_all -= entry.range.size();
}

void Registrations::forget(LastingMemory::Bytes range) {
  const std::lock_guard lock(mutex_);
  const auto ended = std::ranges::stable_partition(entries_, [&](const Entry& entry) {
    return entry.range.data() != range.data() || entry.range.size() != range.size();
  });
  for (const Entry& entry : ended) undo(entry);
  entries_.erase(ended.begin(), ended.end());
}

void Registrations::renew(LastingMemory::Bytes range) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) entry.retired = entry.retired || overlap(entry.range, range);
}

}  // namespace hocket
