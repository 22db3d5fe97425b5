// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/mesh_windows.h"

#include <algorithm>
#include <utility>

#include "comm/device_windows.h"
#include "transports/page_memory.h"

namespace hocket {

uint32_t WindowTable::open(std::span<std::byte> memory, std::shared_ptr<const Segment> segment, WindowPurpose purpose,
                           std::shared_ptr<DevicePart> device, std::unique_ptr<LastingMemory::Hold> lasts,
                           bool on_host) {
  const std::lock_guard lock(mutex_);
  const uint32_t number = purpose == WindowPurpose::kSignals   ? kSignals
                          : purpose == WindowPurpose::kInboxes ? kInboxes
                                                               : ++last_;
  Window& ours = window(number);
  if (segment == nullptr && device == nullptr) ours.reachable = false;  // nobody else can map it
  ours.lasts = std::move(lasts);
  if (purpose == WindowPurpose::kData) ++open_;
  enter(number, ours, static_cast<size_t>(rank_),
        {memory.data(), memory.size(), std::move(segment), std::move(device), on_host});
  return number;
}

void WindowTable::keep(uint32_t number, std::shared_ptr<const Segment> segment) {
  const std::lock_guard lock(mutex_);
  window(number).keeps = std::move(segment);
}

bool WindowTable::close(uint32_t number) {
  decltype(windows_)::node_type closed;  // ends when no peer is served from it
  {
    const std::lock_guard lock(mutex_);
    if (number > last_ || (closed = windows_.extract(number)).empty()) return false;
    --open_;
    ++changes_;
  }
  const std::lock_guard served(serving_);
  return true;
}

bool WindowTable::put(int32_t peer, uint32_t number, WindowPart part) {
  const std::lock_guard lock(mutex_);
  const auto from = static_cast<size_t>(peer);
  const bool can_be = number >= kInboxes || (number > 0 && number <= last_ + kMaxAhead);
  if (!can_be || peer == rank_) return false;
  if (number <= last_ && !windows_.contains(number)) return true;  // closed here already
  Window& theirs = window(number);
  if (theirs.known[from]) return false;
  enter(number, theirs, from, std::move(part));
  return true;
}

void WindowTable::give_up(uint32_t number) {
  const std::lock_guard lock(mutex_);
  ++changes_;
  Window& none = window(number);
  none.reachable = none.told = false;
  none.unknown = 0;
}

WindowTable::Window& WindowTable::window(uint32_t number) {
  const auto found = windows_.find(number);
  if (found != windows_.end()) return *found->second;
  auto made = std::make_unique<Window>();
  made->parts.resize(ranks_);
  made->begins.resize(ranks_);
  made->known.resize(ranks_);
  made->unknown = ranks_;
  return *windows_.emplace(number, std::move(made)).first->second;
}

const WindowTable::Window* WindowTable::find(uint32_t number) const {
  const auto found = windows_.find(number);
  return found == windows_.end() ? nullptr : found->second.get();
}

// Equal on all ranks once all parts are known.
void WindowTable::enter(uint32_t number, Window& window, size_t rank, WindowPart part) {
  const bool on_device = part.device != nullptr;
  window.on_devices += on_device ? 1 : 0;
  window.reachable = window.reachable && (on_device || part.begin != nullptr);
  window.equal = window.equal && (window.usable == SIZE_MAX || window.usable == part.bytes);
  window.usable = std::min(window.usable, part.bytes);
  window.begins_at_page = window.begins_at_page && reinterpret_cast<uintptr_t>(part.begin) % page_bytes() == 0;
  window.ends_alone = window.ends_alone && part.segment != nullptr &&
                      part.begin + part.bytes == part.segment->bytes().data() + part.segment->bytes().size();
  window.begins[rank] = part.begin;
  window.parts[rank] = std::move(part);
  window.known[rank] = true;
  ++changes_;
  if (--window.unknown > 0 || !window.reachable || window.on_devices == 0) return;
  window.reachable = window.on_devices == ranks_ && reach_each_other(number, window.parts);
}

bool WindowTable::fills_pages(const Window& window, size_t offset, size_t bytes) {
  const size_t end = offset + bytes;
  const bool ends_at_page = end % page_bytes() == 0 || (window.equal && window.ends_alone && end == window.usable);
  return window.begins_at_page && offset % page_bytes() == 0 && ends_at_page;
}

WindowTable::Found WindowTable::found_in(uint32_t number, const Window& window, size_t offset, size_t bytes) {
  const bool on_device = window.on_devices > 0;
  return {{number, offset, !on_device && fills_pages(window, offset, bytes)},
          window.unknown == 0,
          window.reachable && offset + bytes <= window.usable,
          on_device};
}

WindowTable::Found WindowTable::find(const void* begin, size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(begin);
  const std::lock_guard lock(mutex_);
  for (const auto& [number, window] : windows_) {
    if (number > last_) break;
    const WindowPart& ours = window->parts[static_cast<size_t>(rank_)];
    if (first < ours.begin || first > ours.begin + ours.bytes) continue;
    const auto offset = static_cast<size_t>(first - ours.begin);
    if (bytes > ours.bytes - offset) continue;
    return found_in(number, *window, offset, bytes);
  }
  return {};
}

WindowTable::Found WindowTable::whole(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const Window* window = find(number);
  return window == nullptr || number > last_ ? Found{} : found_in(number, *window, 0, window->usable);
}

bool WindowTable::holds(std::span<const std::byte> bytes) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(windows_, [&](const auto& entry) {
    const auto& [number, window] = entry;
    const WindowPart& ours = window->parts[static_cast<size_t>(rank_)];
    return number <= last_ && window->told && overlap({ours.begin, ours.bytes}, bytes);
  });
}

WindowTable::Reach WindowTable::reach(int32_t peer, uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const Window* found = find(number);
  if (found == nullptr || !found->known[static_cast<size_t>(rank_)]) return {Reach::State::kNone, {}};
  const auto rank = static_cast<size_t>(peer);
  if (!found->known[rank] && found->unknown > 0) return {Reach::State::kNotYet, {}};
  const WindowPart& part = found->parts[rank];
  if (part.device != nullptr || !part.on_host) return {Reach::State::kDevice, {part.begin, part.bytes}};
  if (part.begin == nullptr) return {Reach::State::kFar, {}};
  return {Reach::State::kNear, {part.begin, part.bytes}};
}

RemoteReply WindowTable::serve(uint32_t number, const std::function<RemoteReply(std::span<std::byte>)>& work) {
  const std::lock_guard serving(serving_);
  std::span<std::byte> part;
  {
    const std::lock_guard lock(mutex_);
    RemoteReply none;
    const Window* found = find(number);
    const bool opened = found != nullptr && found->known[static_cast<size_t>(rank_)];
    // Who waits for a window of a rank that leaves will hear of that.
    none.outcome = number > last_ || shut_ ? RemoteReply::Outcome::kNotYet : RemoteReply::Outcome::kNoWindow;
    if (!opened || shut_) return none;
    const WindowPart& ours = found->parts[static_cast<size_t>(rank_)];
    if (ours.device != nullptr || !ours.on_host) return none;
    part = {ours.begin, ours.bytes};
  }
  return work(part);
}

void WindowTable::shut() {
  const std::lock_guard serving(serving_);
  shut_ = true;
}

std::vector<int32_t> WindowTable::missing(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  std::vector<int32_t> ranks;
  const Window* found = find(number);
  for (size_t rank = 0; found != nullptr && rank < ranks_; ++rank) {
    if (!found->known[rank]) ranks.push_back(static_cast<int32_t>(rank));
  }
  return ranks;
}

std::span<std::byte* const> WindowTable::begins(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  return find(number)->begins;
}

std::vector<std::shared_ptr<DevicePart>> WindowTable::device_parts(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<DevicePart>> parts;
  for (const WindowPart& part : find(number)->parts) parts.push_back(part.device);
  return parts;
}

std::shared_ptr<DevicePart> WindowTable::device_part(uint32_t number, int32_t rank) const {
  const std::lock_guard lock(mutex_);
  const Window* const found = find(number);
  return found == nullptr ? nullptr : found->parts[static_cast<size_t>(rank)].device;
}

std::vector<std::shared_ptr<DevicePart>> WindowTable::inboxes() const {
  {
    const std::lock_guard lock(mutex_);
    const Window* const found = find(kInboxes);
    if (found == nullptr || found->unknown > 0 || !found->reachable) return {};
  }
  return device_parts(kInboxes);
}

void WindowTable::note_mapped(uint32_t number, int32_t rank, std::byte* begin) {
  const std::lock_guard lock(mutex_);
  Window& found = window(number);
  found.parts[static_cast<size_t>(rank)].begin = found.begins[static_cast<size_t>(rank)] = begin;
}

}  // namespace hocket
