// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which device memory the ranks of a communicator reach in each other, though it is no window: allocations are offered
// when a call first uses them, and stay mapped as long as they are used. A table, of which the mesh tells the peers.
// Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/shared_memory.h"

namespace hocket {

// An allocation of ours that peers were told of.
class OfferedMemory {
 public:
  OfferedMemory(uint32_t number, cuda::SharedAllocation shared, int32_t peers)
      : number_(number), shared_(std::move(shared)), awaited_(peers) {}

  // Among those of this rank, from 1 on.
  uint32_t number() const { return number_; }
  const cuda::MemoryOffer& offer() const { return shared_.offer; }
  const std::shared_ptr<const Segment>& descriptor() const { return shared_.descriptor; }
  // All peers have said whether they have mapped it; each is heard once.
  bool is_answered() const { return awaited_.load(std::memory_order_acquire) == 0; }
  // Kernels of all peers reach it.
  bool is_reached() const { return is_answered() && !refused_; }
  void answer(bool is_mapped) {
    if (!is_mapped) refused_ = true;
    awaited_.fetch_sub(1, std::memory_order_acq_rel);
  }
  // True for the first who asks: one call waits for the answers, the later ones look.
  bool is_first_to_wait() { return !waited_.exchange(true); }

 private:
  const uint32_t number_;
  const cuda::SharedAllocation shared_;
  std::atomic<int32_t> awaited_;
  std::atomic<bool> refused_{false};
  std::atomic<bool> waited_{false};
};

class PeerMemory {
 public:
  // Allocations that a rank offers at a time.
  static constexpr size_t kMostOffered = 128;

  explicit PeerMemory(int32_t ranks) : peers_(static_cast<size_t>(ranks)) {}

  // ---- Ours

  // What was offered of the allocation, which is used now; null: it is to be offered.
  std::shared_ptr<OfferedMemory> find(uint64_t allocation);
  // One more; null: as many as may be are used by calls that have not ended.
  std::shared_ptr<OfferedMemory> add(cuda::SharedAllocation shared);
  // Takes out what no call uses: all that is gone, by what the driver says, and, where there is no room for one more,
  // what was used the longest ago.
  std::vector<std::shared_ptr<OfferedMemory>> take_surplus(const cuda::Driver& driver);
  // False: the peer has no such allocation to answer for.
  bool answer(int32_t peer, uint32_t number, bool is_mapped);

  // ---- The peers'

  // False: the peer may not offer this: it did before, or has offered too many.
  bool expect(int32_t peer, uint32_t number);
  void put(int32_t peer, uint32_t number, std::shared_ptr<const cuda::MappedMemory> mapped, size_t bytes);
  // What was mapped, which the caller lets go of.
  std::shared_ptr<const cuda::MappedMemory> take_out(int32_t peer, uint32_t number);
  // Not mapped: null. It stays mapped while the caller holds it.
  struct Mapped {
    std::shared_ptr<const cuda::MappedMemory> memory;
    size_t bytes = 0;
  };
  Mapped of(int32_t peer, uint32_t number) const;
  // All that is mapped, which the caller lets go of.
  std::vector<Mapped> take_all();

 private:
  struct Own {
    std::shared_ptr<OfferedMemory> memory;
    uint64_t used = 0;  // when, by the count of look-ups
    std::vector<bool> answered;
  };
  bool is_free(const Own& own) const { return own.memory.use_count() == 1 && own.memory->is_answered(); }
  std::vector<std::shared_ptr<OfferedMemory>> find_free() const;

  mutable std::mutex mutex_;
  std::map<uint64_t, Own> own_;  // by the driver's number
  uint32_t last_ = 0;
  uint64_t uses_ = 0;
  std::vector<std::map<uint32_t, Mapped>> peers_;  // by rank and number; null: to be mapped
};

}  // namespace hocket
