// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

namespace hocket::cuda {
namespace {

// Pinned memory comes in pages, and few sizes are used again more often; of a device we take little.
constexpr size_t smallest(MemoryPool::Kind kind) {
  return kind == MemoryPool::Kind::kPinned ? size_t{64} << 10 : size_t{4} << 10;
}

}  // namespace

MemoryBlock& MemoryBlock::operator=(MemoryBlock&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(memory_, other.memory_);
  std::swap(size_, other.size_);
  return *this;
}

MemoryBlock::~MemoryBlock() {
  if (pool_ != nullptr) pool_->put(memory_, size_);
}

Result<MemoryBlock> MemoryPool::take(size_t bytes) {
  const size_t size = std::bit_ceil(std::max(bytes, smallest(kind_)));
  if (std::byte* known = find(size); known != nullptr) return MemoryBlock(this, known, size);
  for (const Kept& surplus : take_surplus()) free(surplus.memory);
  const Result<std::byte*> memory = allocate(size);
  HOCKET_TRY(memory.status());
  return MemoryBlock(this, *memory, size);
}

Result<std::byte*> MemoryPool::allocate(size_t size) const {
  void* pinned = nullptr;
  Address address = 0;
  const Status status = kind_ == Kind::kPinned
                            ? checked(driver_, driver_.memory_host_allocate(&pinned, size, kPortable), "cuMemHostAlloc")
                            : checked(driver_, driver_.memory_allocate(&address, size), "cuMemAlloc");
  if (!status.ok()) {
    return Status(status.code(), fmt::format("no {} bytes of {} memory: {}", size,
                                             kind_ == Kind::kPinned ? "pinned" : "the device's", status.message()));
  }
  return kind_ == Kind::kPinned ? static_cast<std::byte*>(pinned) : reinterpret_cast<std::byte*>(address);
}

void MemoryPool::free(std::byte* memory) const {
  if (kind_ == Kind::kPinned) {
    driver_.memory_host_free(memory);
  } else {
    driver_.memory_free(static_cast<Address>(reinterpret_cast<uintptr_t>(memory)));
  }
}

size_t MemoryPool::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

void MemoryPool::put(std::byte* memory, size_t size) {
  const std::lock_guard lock(mutex_);
  kept_.push_back({memory, size});
  kept_bytes_ += size;
}

std::byte* MemoryPool::find(size_t size) {
  const std::lock_guard lock(mutex_);
  const auto fits = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.size == size; });
  if (fits == kept_.end()) return nullptr;
  std::byte* const memory = fits->memory;
  kept_.erase(fits);
  kept_bytes_ -= size;
  return memory;
}

std::vector<MemoryPool::Kept> MemoryPool::take_surplus() {
  const std::lock_guard lock(mutex_);
  if (kept_bytes_ <= kMostKept) return {};
  kept_bytes_ = 0;
  return std::exchange(kept_, {});
}

Result<std::byte*> GrowingBlock::at_least(MemoryPool& pool, size_t bytes) {
  if (bytes > size_) {
    Result<MemoryBlock> block = pool.take(bytes);
    HOCKET_TRY(block.status());
    block_ = std::move(*block);
    size_ = bytes;
  }
  return block_.memory();
}

// Never destroyed: at the end of the process the driver may be gone before them.
MemoryPool& pinned_pool(const Driver& driver) {
  static auto& pool = *new MemoryPool(driver, MemoryPool::Kind::kPinned);
  return pool;
}

MemoryPool& device_pool(const Driver& driver, Context context) {
  static auto& mutex = *new std::mutex;
  static auto& pools = *new std::map<Context, MemoryPool>;  // guarded by mutex
  const std::lock_guard lock(mutex);
  return pools.try_emplace(context, driver, MemoryPool::Kind::kDevice).first->second;
}

}  // namespace hocket::cuda
