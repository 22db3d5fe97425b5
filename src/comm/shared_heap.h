// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Memory that other processes of this host can map: what hocketMemAlloc gives. Any thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "base/status.h"
#include "base/system.h"
#include "transports/lasting_memory.h"

namespace hocket {

class SharedHeap {
 public:
  // A part of what was allocated; kept as long as somebody holds it. No segment: the memory is not of this heap.
  struct Piece {
    std::shared_ptr<const Segment> segment;
    size_t offset = 0;  // in the segment
  };

  explicit SharedHeap(SharedMemory& memory) : memory_(memory) {}

  Result<void*> allocate(size_t bytes);
  // Fails for what is not the beginning of an allocation.
  Status free(void* start);
  Piece find(const void* start, size_t bytes) const;
  // No new window reaches into the allocation that holds these bytes.
  void close(std::span<const std::byte> bytes);
  // Whole pages of such an allocation, or all of it to the end, are what others write to no more. Fails when there is
  // no memory for other pages.
  Status take_back(std::span<std::byte> pages);

 private:
  struct Allocation {
    std::shared_ptr<const Segment> segment;
    std::unique_ptr<LastingMemory::Hold> lasts;  // until it is freed
    bool shared = true;                          // all of it is what others map
  };

  // The allocation that holds these bytes, if one does.
  const Allocation* find_allocation(const void* start, size_t bytes) const;

  SharedMemory& memory_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Allocation> allocations_;  // by where they begin
};

// Of this process; never destroyed: memory may be in use when the process ends.
SharedHeap& process_heap();

}  // namespace hocket
