// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/shared_heap.h"

#include <fmt/format.h>

#include <iterator>

#include "transports/page_memory.h"

namespace hocket {

Result<void*> SharedHeap::allocate(size_t bytes) {
  Result<std::unique_ptr<Segment>> segment = memory_.create(bytes);
  if (!segment.ok()) return segment.status();
  std::byte* start = (*segment)->bytes().data();
  const std::lock_guard lock(mutex_);
  auto lasts = std::make_unique<LastingMemory::Hold>((*segment)->bytes());
  allocations_[start] = {std::move(*segment), std::move(lasts)};
  return static_cast<void*>(start);
}

Status SharedHeap::free(void* start) {
  const std::lock_guard lock(mutex_);
  if (allocations_.erase(static_cast<const std::byte*>(start)) == 1) return {};
  return {Code::kInvalidArgument, fmt::format("ptr: {} is not what hocketMemAlloc gave", fmt::ptr(start))};
}

SharedHeap::Piece SharedHeap::find(const void* start, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const Allocation* found = find_allocation(start, bytes);
  if (found == nullptr || !found->shared) return {};
  const auto offset = static_cast<const std::byte*>(start) - found->segment->bytes().data();
  return {found->segment, static_cast<size_t>(offset)};
}

void SharedHeap::close(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const Allocation* found = find_allocation(bytes.data(), bytes.size());
  if (found != nullptr) allocations_.find(found->segment->bytes().data())->second.shared = false;
}

Status SharedHeap::take_back(std::span<std::byte> pages) {
  std::shared_ptr<const Segment> stays;  // mapped, though it may be freed meanwhile
  {
    const std::lock_guard lock(mutex_);
    const Allocation* found = find_allocation(pages.data(), pages.size());
    if (found == nullptr) return {};  // freed
    stays = found->segment;
  }
  HOCKET_TRY(make_own(pages));
  LastingMemory::of_process().replace(pages);
  return {};
}

const SharedHeap::Allocation* SharedHeap::find_allocation(const void* start, size_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(start);
  const auto after = allocations_.upper_bound(begin);
  if (after == allocations_.begin()) return nullptr;
  const auto& [first, allocation] = *std::prev(after);
  const size_t size = allocation.segment->bytes().size();
  const auto offset = static_cast<size_t>(begin - first);
  return offset > size || bytes > size - offset ? nullptr : &allocation;
}

SharedHeap& process_heap() {
  static auto& heap = *new SharedHeap(real_system().memory);
  return heap;
}

}  // namespace hocket
