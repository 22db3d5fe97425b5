// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The table behind opaque handles. A handle is the number of its table, an index and a generation, never an address: a
// destroyed or invented one, or one of another kind, is found out without touching memory. Handles are odd and above
// 2^32, as no address of a CUDA stream's is.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace hocket {

template <typename Object>
class HandleTable {
  // In a cache line of its own: calls write to it, and a neighbour's thread would wait for the line.
  struct alignas(64) Entry {
    std::atomic<uint32_t> generation{0};  // odd: in use
    std::atomic<uint32_t> users{0};
    std::atomic<bool> held{false};
    std::unique_ptr<Object> object;
  };

 public:
  static constexpr uintptr_t kCapacity = 1 << 16;

  // No two tables of a process have the same number, which is small.
  explicit HandleTable(uintptr_t number) : first_(number * 2 * kCapacity + 1) {}

  // Keeps an object alive while a call is inside. False: no such handle.
  class Pin {
   public:
    explicit Pin(Entry* entry) : entry_(entry) {}
    Pin(Pin&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
    Pin& operator=(Pin&&) = delete;
    ~Pin() {
      if (entry_ != nullptr) entry_->users.fetch_sub(1, std::memory_order_release);
    }
    explicit operator bool() const { return entry_ != nullptr; }
    Object* operator->() const { return entry_->object.get(); }
    Object& operator*() const { return *entry_->object; }
    // A call needs it for itself.
    bool held() const { return entry_->held.load(); }

   private:
    Entry* entry_;
  };

  // The same for a call that needs the object for itself, at half the cost.
  class Hold {
   public:
    explicit Hold(Entry* entry) : entry_(entry), pin_(nullptr) {}
    explicit Hold(Pin pin) : entry_(nullptr), pin_(std::move(pin)) {}
    Hold(Hold&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)), pin_(std::move(other.pin_)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (entry_ != nullptr) entry_->held.store(false, std::memory_order_release);
    }
    // Null: no such handle.
    Object* get() const { return entry_ != nullptr ? entry_->object.get() : pin_ ? &*pin_ : nullptr; }
    // False: another call holds it.
    bool alone() const { return entry_ != nullptr; }

   private:
    Entry* entry_;
    Pin pin_;  // of an object that another holds
  };

  // A handle for the object; null when the table is full.
  void* add(std::unique_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    uintptr_t index = used_;
    if (free_.size() > kRest || (used_ == kCapacity && !free_.empty())) {
      index = free_.front();
      free_.pop_front();
    } else if (used_ == kCapacity) {
      return nullptr;
    } else {
      ++used_;
    }
    Entry* entry = entry_at(index, true);
    entry->object = std::move(object);
    const uint32_t generation = entry->generation.load() + 1;
    entry->generation.store(generation, std::memory_order_release);
    return to_handle(index, generation);
  }

  // Whether the handle stood for an object just now. One never stands for another object later.
  bool lives(const void* handle) {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    const Entry* entry = find(value);
    return entry != nullptr && names(value, *entry);
  }

  Pin pin(const void* handle) {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    Entry* entry = find(value);
    if (entry == nullptr) return Pin(nullptr);
    entry->users.fetch_add(1);  // before the generation is read: remove() looks at both in the other order
    Pin pin(entry);
    return names(value, *entry) ? std::move(pin) : Pin(nullptr);
  }

  Hold hold(const void* handle) {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    Entry* entry = find(value);
    if (entry == nullptr || !names(value, *entry)) return Hold(nullptr);
    if (entry->held.exchange(true)) return Hold(pin(handle));
    Hold hold(entry);
    return names(value, *entry) ? std::move(hold) : Hold(nullptr);  // again, for the same reason as pin()
  }

  // Makes the handle invalid, waits until no call is inside, and returns the object; null when there is none.
  std::unique_ptr<Object> remove(void* handle) {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    Entry* entry = find(value);
    if (entry == nullptr) return nullptr;
    auto generation = static_cast<uint32_t>(value);
    if (generation % 2 == 0 || !entry->generation.compare_exchange_strong(generation, generation + 1)) return nullptr;
    while (entry->users.load() != 0 || entry->held.load()) std::this_thread::yield();
    std::unique_ptr<Object> object = std::move(entry->object);
    const std::lock_guard lock(mutex_);
    free_.push_back(index_of(value));
    return object;
  }

  // While the process is forked: no other thread adds or removes, whose lock the child would find held.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  // An index rests before it is used again, so that a stale handle is told from a new one for long.
  static constexpr size_t kRest = 64;
  static constexpr uintptr_t kBlock = 256;
  using Block = std::array<Entry, kBlock>;

  void* to_handle(uintptr_t index, uint32_t generation) const {
    return reinterpret_cast<void*>((index + first_) << 32 | generation);
  }
  // Of what is no handle of this table: beyond the capacity.
  uintptr_t index_of(uintptr_t value) const { return (value >> 32) - first_; }

  static bool names(uintptr_t value, const Entry& entry) {
    const auto generation = static_cast<uint32_t>(value);
    return generation % 2 == 1 && entry.generation.load() == generation;
  }

  Entry* find(uintptr_t value) { return index_of(value) < kCapacity ? entry_at(index_of(value), false) : nullptr; }

  Entry* entry_at(uintptr_t index, bool create) {
    std::atomic<Block*>& block = blocks_[index / kBlock];
    if (create && block.load() == nullptr) {
      owned_.push_back(std::make_unique<Block>());
      block.store(owned_.back().get(), std::memory_order_release);
    }
    Block* found = block.load(std::memory_order_acquire);
    return found == nullptr ? nullptr : &(*found)[index % kBlock];
  }

  const uintptr_t first_;
  std::array<std::atomic<Block*>, kCapacity / kBlock> blocks_{};
  std::mutex mutex_;
  std::deque<std::unique_ptr<Block>> owned_;  // guarded by mutex_
  std::deque<uintptr_t> free_;                // guarded by mutex_
  uintptr_t used_ = 0;                        // guarded by mutex_
};

}  // namespace hocket
