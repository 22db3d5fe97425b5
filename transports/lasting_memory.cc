// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/lasting_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "transports/of_process.h"

namespace hocket {
namespace {

bool is(LastingMemory::Bytes left, LastingMemory::Bytes right) {
  return left.data() == right.data() && left.size() == right.size();
}

}  // namespace

bool overlap(LastingMemory::Bytes left, LastingMemory::Bytes right) {
  return left.data() < right.data() + right.size() && right.data() < left.data() + left.size();
}

LastingMemory& LastingMemory::of_process() {
  static auto& memory = *new OfProcess<std::unique_ptr<LastingMemory>>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (memory.get() == nullptr) memory.get() = std::make_unique<LastingMemory>();
  return *memory.get();
}

LastingMemory::Reason LastingMemory::begin(Bytes range, std::shared_ptr<const BeyondHost> beyond) {
  static std::atomic<Reason> last = 0;  // goes on in a forked child, where reasons of the parent's may end
  const Reason reason = ++last;
  const std::lock_guard lock(mutex_);
  ranges_.push_back({range, reason, std::move(beyond)});
  return reason;
}

void LastingMemory::end(Reason reason) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(ranges_, reason, &Range::reason);
  if (found == ranges_.end()) return;
  const Bytes range = found->bytes;
  ranges_.erase(found);
  const bool goes_on = std::ranges::any_of(ranges_, [&](const Range& each) { return is(each.bytes, range); });
  if (!goes_on) forget(range);
}

void LastingMemory::end_all(Bytes memory) {
  const std::lock_guard lock(mutex_);
  std::erase_if(ranges_, [&](const Range& each) {
    if (!overlap(each.bytes, memory)) return false;
    forget(each.bytes);
    return true;
  });
}

void LastingMemory::forget(Bytes range) {
  for (User* user : users_) user->forget(range);
}

void LastingMemory::replace(Bytes pages) {
  const std::lock_guard lock(mutex_);
  for (const Range& range : ranges_) {
    if (!overlap(range.bytes, pages)) continue;
    for (User* user : users_) user->renew(range.bytes);
  }
}

void LastingMemory::join(User* user) {
  const std::lock_guard lock(mutex_);
  users_.push_back(user);
}

void LastingMemory::leave(User* user) {
  const std::lock_guard lock(mutex_);
  std::erase(users_, user);
}

bool LastingMemory::with(Bytes bytes, const std::function<void(Bytes range, const BeyondHost* beyond)>& make) {
  const std::lock_guard lock(mutex_);
  const Range* const found = find(bytes);
  if (found != nullptr) make(found->bytes, found->beyond.get());
  return found != nullptr;
}

std::shared_ptr<const BeyondHost> LastingMemory::beyond_host(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  const Range* const found = find(bytes);
  return found == nullptr ? nullptr : found->beyond;
}

Status copy_to_host(std::byte* to, std::span<const std::byte> from, bool beyond_host) {
  if (from.empty()) return {};
  if (!beyond_host) {
    std::memcpy(to, from.data(), from.size());
    return {};
  }
  const auto beyond = LastingMemory::of_process().beyond_host(from);
  if (beyond != nullptr) return beyond->copy_out(to, from);
  return Status(Code::kInvalidUsage, fmt::format("{} bytes of an accelerator's memory were freed or deregistered while "
                                                 "they were sent",
                                                 from.size()));
}

const LastingMemory::Range* LastingMemory::find(Bytes bytes) const {
  const auto found = std::ranges::find_if(ranges_, [&](const Range& each) {
    return bytes.data() >= each.bytes.data() && bytes.data() + bytes.size() <= each.bytes.data() + each.bytes.size();
  });
  return found == ranges_.end() ? nullptr : &*found;
}

}  // namespace hocket
