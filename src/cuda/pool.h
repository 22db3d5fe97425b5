// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Memory that is kept for the next call, since getting it is slow and giving it back waits for the device: pinned
// memory of the host, which devices read and write beside other work, and memory of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cuda/driver.h"

namespace hocket::cuda {

class MemoryPool;

// Returns to its pool when destroyed, by whichever thread: no function of the driver is called.
class MemoryBlock {
 public:
  MemoryBlock() = default;
  MemoryBlock(MemoryPool* pool, std::byte* memory, size_t size) : pool_(pool), memory_(memory), size_(size) {}
  MemoryBlock(MemoryBlock&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), memory_(other.memory_), size_(other.size_) {}
  MemoryBlock& operator=(MemoryBlock&& other) noexcept;
  ~MemoryBlock();
  std::byte* memory() const { return memory_; }

 private:
  MemoryPool* pool_ = nullptr;
  std::byte* memory_ = nullptr;
  size_t size_ = 0;
};

class MemoryPool {
 public:
  enum class Kind : uint8_t { kPinned, kDevice };

  MemoryPool(const Driver& driver, Kind kind) : driver_(driver), kind_(kind) {}
  // At least so many bytes, aligned to 256, in a context that was entered: for a device's, always the same one.
  Result<MemoryBlock> take(size_t bytes);
  // What lies here unused.
  size_t kept_bytes() const;

 private:
  friend class MemoryBlock;
  struct Kept {
    std::byte* memory;
    size_t size;
  };
  // Beyond it, what is free goes back to the system before more is asked for.
  static constexpr size_t kMostKept = size_t{4} << 30;

  void put(std::byte* memory, size_t size);
  std::byte* find(size_t size);
  std::vector<Kept> take_surplus();
  Result<std::byte*> allocate(size_t size) const;
  void free(std::byte* memory) const;

  const Driver& driver_;
  const Kind kind_;
  mutable std::mutex mutex_;
  std::vector<Kept> kept_;  // guarded by mutex_
  size_t kept_bytes_ = 0;   // guarded by mutex_
};

// Memory that grows, and begins elsewhere then.
class GrowingBlock {
 public:
  Result<std::byte*> at_least(MemoryPool& pool, size_t bytes);

 private:
  MemoryBlock block_;
  size_t size_ = 0;
};

// Those of this process: pinned memory for all devices, and that of the context's device.
MemoryPool& pinned_pool(const Driver& driver);
MemoryPool& device_pool(const Driver& driver, Context context);

}  // namespace hocket::cuda
