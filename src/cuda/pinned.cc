// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/pinned.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace hocket::cuda {

PinnedBlock& PinnedBlock::operator=(PinnedBlock&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

PinnedBlock::~PinnedBlock() {
  if (pool_ != nullptr) pool_->put(memory_, size_);
}

Result<PinnedBlock> PinnedPool::take(size_t bytes) {
  const size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  if (std::byte* known = find(size); known != nullptr) return PinnedBlock(this, known, size);
  for (const Kept& surplus : take_surplus()) driver_.memory_host_free(surplus.memory);
  void* memory = nullptr;
  const Status status = checked(driver_, driver_.memory_host_allocate(&memory, size, kPortable), "cuMemHostAlloc");
  if (!status.ok()) {
    return Status(status.code(), fmt::format("no {} bytes of pinned memory: {}", size, status.message()));
  }
  return PinnedBlock(this, static_cast<std::byte*>(memory), size);
}

size_t PinnedPool::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

void PinnedPool::put(std::byte* memory, size_t size) {
  const std::lock_guard lock(mutex_);
  kept_.push_back({memory, size});
  kept_bytes_ += size;
}

std::byte* PinnedPool::find(size_t size) {
  const std::lock_guard lock(mutex_);
  const auto fits = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.size == size; });
  if (fits == kept_.end()) return nullptr;
  std::byte* const memory = fits->memory;
  kept_.erase(fits);
  kept_bytes_ -= size;
  return memory;
}

std::vector<PinnedPool::Kept> PinnedPool::take_surplus() {
  const std::lock_guard lock(mutex_);
  if (kept_bytes_ <= kMostKept) return {};
  kept_bytes_ = 0;
  return std::exchange(kept_, {});
}

// Never destroyed: at the end of the process the driver may be gone before it.
PinnedPool& pinned_pool(const Driver& driver) {
  static auto& pool = *new PinnedPool(driver);
  return pool;
}

}  // namespace hocket::cuda
