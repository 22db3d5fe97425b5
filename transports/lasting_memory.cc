// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/lasting_memory.h"

#include <algorithm>
#include <memory>

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

void LastingMemory::begin(Bytes range) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(ranges_, [&](const Range& each) { return is(each.bytes, range); });
  if (found == ranges_.end()) {
    ranges_.push_back({range, 1});
  } else {
    ++found->reasons;
  }
}

void LastingMemory::end(Bytes range) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(ranges_, [&](const Range& each) { return is(each.bytes, range); });
  if (found == ranges_.end() || --found->reasons > 0) return;
  ranges_.erase(found);
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

bool LastingMemory::with(Bytes bytes, const std::function<void(Bytes range)>& make) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(ranges_, [&](const Range& each) {
    return bytes.data() >= each.bytes.data() && bytes.data() + bytes.size() <= each.bytes.data() + each.bytes.size();
  });
  if (found == ranges_.end()) return false;
  make(found->bytes);
  return true;
}

}  // namespace hocket
