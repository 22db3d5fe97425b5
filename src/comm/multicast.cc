// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/multicast.h"

#include <algorithm>
#include <set>
#include <utility>

namespace hocket {

void MulticastWindow::note_failed_call() {
  const std::lock_guard lock(mutex_);
  has_failed_call_ = true;
  if (object_ != nullptr) object_->stay_bound();
}

bool MulticastWindow::set_up(size_t ranks) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kNone) return false;
  state_ = State::kJoining;
  heard_.assign(ranks, false);
  return true;
}

MulticastWindow::Heard MulticastWindow::hear(int32_t rank, bool has_done) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kOff) return Heard::kNothing;
  if (state_ == State::kNone || state_ == State::kInUse || heard_[static_cast<size_t>(rank)]) return Heard::kTwice;
  heard_[static_cast<size_t>(rank)] = true;
  if (!has_done) return Heard::kRefused;
  if (!std::ranges::all_of(heard_, [](bool heard) { return heard; })) return Heard::kNotAll;
  heard_.assign(heard_.size(), false);
  const bool have_joined = state_ == State::kJoining;
  state_ = have_joined ? State::kBinding : State::kInUse;
  return have_joined ? Heard::kJoined : Heard::kBound;
}

void MulticastWindow::put(std::shared_ptr<cuda::Multicast> object) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kOff) return;
  if (has_failed_call_) object->stay_bound();
  object_ = std::move(object);
}

std::shared_ptr<cuda::Multicast> MulticastWindow::object() const {
  const std::lock_guard lock(mutex_);
  return object_;
}

void MulticastWindow::use() {
  const std::lock_guard lock(mutex_);
  std::byte* const begin = object_ == nullptr ? nullptr : object_->begin();
  if (begin != nullptr) begin_.store(begin + offset_, std::memory_order_release);
}

std::shared_ptr<cuda::Multicast> MulticastWindow::turn_off() {
  const std::lock_guard lock(mutex_);
  state_ = State::kOff;
  return std::exchange(object_, nullptr);
}

size_t multicast_bytes(const cuda::Driver& driver, const DeviceParts& parts) {
  const DevicePart& ours = *parts[MulticastWindow::kLead];
  const auto begin = reinterpret_cast<const void*>(static_cast<uintptr_t>(ours.offer.address));
  const Result<cuda::Allocation> found = cuda::find_allocation(driver, begin);
  const size_t grain = found.ok() ? cuda::multicast_grain(driver, found->device) : 0;
  if (grain == 0) return 0;
  std::set<cuda::Uuid> devices;
  size_t bytes = ours.offer.bytes;
  for (const auto& part : parts) {
    const bool can_be_bound = part->offer.way == cuda::MemoryOffer::Way::kDescriptor && part->offset == ours.offset;
    if (!can_be_bound || part->offer.bytes % grain != 0 || !devices.insert(part->offer.device).second) return 0;
    bytes = std::min<size_t>(bytes, part->offer.bytes);
  }
  return parts.size() < 2 ? 0 : bytes;
}

Result<cuda::MadeMemory> memory_of(const DevicePart& part) {
  cuda::MadeMemory memory = cuda::made_memory(part.offer.allocation, part.offer.address);
  if (memory.kept == nullptr) return Status(Code::kInvalidArgument, "its memory was freed, or is none of ours");
  return memory;
}

}  // namespace hocket
