// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pinned memory of the host, which the device reads and writes beside other work. Getting it is slow and giving it back
// waits for the device, so blocks are kept for the next call.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cuda/driver.h"

namespace hocket::cuda {

class PinnedPool;

// Returns to its pool when destroyed, by whichever thread: no function of the driver is called.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(PinnedPool* pool, std::byte* memory, size_t size) : pool_(pool), memory_(memory), size_(size) {}
  PinnedBlock(PinnedBlock&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), memory_(other.memory_), size_(other.size_) {}
  PinnedBlock& operator=(PinnedBlock&& other) noexcept;
  ~PinnedBlock();
  std::byte* memory() const { return memory_; }

 private:
  PinnedPool* pool_ = nullptr;
  std::byte* memory_ = nullptr;
  size_t size_ = 0;
};

class PinnedPool {
 public:
  explicit PinnedPool(const Driver& driver) : driver_(driver) {}
  // At least so many bytes, aligned to pages, in a context that was entered.
  Result<PinnedBlock> take(size_t bytes);
  // What lies here unused.
  size_t kept_bytes() const;

 private:
  friend class PinnedBlock;
  struct Kept {
    std::byte* memory;
    size_t size;
  };
  static constexpr size_t kSmallest = size_t{64} << 10;
  // Beyond it, what is free goes back to the system before more is asked for.
  static constexpr size_t kMostKept = size_t{4} << 30;

  void put(std::byte* memory, size_t size);
  std::byte* find(size_t size);
  std::vector<Kept> take_surplus();

  const Driver& driver_;
  mutable std::mutex mutex_;
  std::vector<Kept> kept_;  // guarded by mutex_
  size_t kept_bytes_ = 0;   // guarded by mutex_
};

// The pool of this process.
PinnedPool& pinned_pool(const Driver& driver);

}  // namespace hocket::cuda
