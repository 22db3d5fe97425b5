// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A window of devices behind one address, which a switch between them reads and writes. Rank 0 leads: it makes the
// object when a call could use it, and all join it, bind their memory and hear that all have, by messages beside the
// calls (mesh_rank_multicast.cc), for which no call waits. Whoever has heard lets its kernels use the address; that
// others have not yet heard changes nothing of the result. If any rank cannot, the window goes without, on all ranks.
// Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/device_windows.h"
#include "cuda/multicast.h"

namespace hocket {

class MulticastWindow {
 public:
  static constexpr int32_t kLead = 0;

  // `offset`: of our part in its allocation.
  explicit MulticastWindow(size_t offset) : offset_(offset) {}

  // Where kernels of ours reach all parts at once; null: not yet, or never.
  std::byte* begin() const { return begin_.load(std::memory_order_acquire); }
  // A call on the window has failed, so that kernels of peers may use our memory when ours do not any more.
  void note_failed_call();

  // The lead's. True once: it is to be set up now, among so many ranks.
  bool set_up(size_t ranks);
  // A rank has done what it was asked to do, or cannot do it.
  enum class Heard : uint8_t {
    kNotAll,   // others are still to say so
    kJoined,   // all have joined, and are to bind now
    kBound,    // all have bound, and may use it now
    kRefused,  // it is off from now on
    kNothing,  // it was off before
    kTwice,    // it had said so already
  };
  Heard hear(int32_t rank, bool has_done);

  // Ours is there, or was already; what is too late is let go of.
  void put(std::shared_ptr<cuda::Multicast> object);
  // Null: there is none, or it is off.
  std::shared_ptr<cuda::Multicast> object() const;
  // All have bound their memory.
  void use();
  // No kernel has used it. The caller lets go of ours where it may call the driver.
  std::shared_ptr<cuda::Multicast> turn_off();

 private:
  enum class State : uint8_t { kNone, kJoining, kBinding, kInUse, kOff };

  const size_t offset_;
  std::atomic<std::byte*> begin_ = nullptr;
  mutable std::mutex mutex_;
  State state_ = State::kNone;               // of the lead's; of others': whether it is off
  std::vector<bool> heard_;                  // from whom, in this state
  std::shared_ptr<cuda::Multicast> object_;  // guarded by mutex_, as all above
  bool has_failed_call_ = false;             // guarded by mutex_
};

// Bytes of the object for a window with these parts; 0: they do not all lie in memory of devices of their own that can
// be bound, and at one offset.
size_t multicast_bytes(const cuda::Driver& driver, const DeviceParts& parts);

// The device of our part, and what keeps its memory; fails where it was freed.
Result<cuda::MadeMemory> memory_of(const DevicePart& part);

}  // namespace hocket
