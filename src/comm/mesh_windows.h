// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Windows: memory that every rank of a communicator has registered and every other can reach. Ranks register in the
// same order, each its own part, and tell the others; who has heard from all knows where all parts are, or that some
// rank's part cannot be reached and the window is none. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/system.h"
#include "comm/remote.h"
#include "transports/lasting_memory.h"

namespace hocket {

struct DevicePart;

// A rank's part of a window.
struct WindowPart {
  std::byte* begin = nullptr;  // in our memory; null: we cannot reach it, or, on a device, have not mapped it
  size_t bytes = 0;
  std::shared_ptr<const Segment> segment = {};  // what keeps it mapped
  std::shared_ptr<DevicePart> device = {};      // null: kernels of others do not reach it
  bool on_host = true;                          // where calls of the host may touch it; of ours alone
};

// Where a buffer is, if it is in a window. The same on all ranks.
struct WindowSpot {
  uint32_t window = 0;  // 0: in none
  uint64_t offset = 0;  // bytes
  // All ranks' bytes there fill pages on which nothing else lies: peers may write to them, for they can be taken back.
  bool whole_pages = false;
  friend bool operator==(const WindowSpot&, const WindowSpot&) = default;
};

enum class WindowPurpose : uint8_t { kData, kSignals, kInboxes };

class WindowTable {
 public:
  // The number of each rank's signals (signals.h), which are reached like a window; no buffer lies there.
  static constexpr uint32_t kSignals = UINT32_MAX;
  // ... and of each rank's inbox for packets (low_latency.h).
  static constexpr uint32_t kInboxes = UINT32_MAX - 1;
  // How many windows a peer may be ahead of us.
  static constexpr uint32_t kMaxAhead = 1 << 12;

  WindowTable(int32_t rank, int32_t ranks) : rank_(rank), ranks_(static_cast<size_t>(ranks)) {}

  // This rank's next window, of which it has only its own part so far. Returns its number, from 1 on. `lasts`: is kept
  // until the window is closed.
  uint32_t open(std::span<std::byte> memory, std::shared_ptr<const Segment> segment,
                WindowPurpose purpose = WindowPurpose::kData, std::shared_ptr<DevicePart> device = {},
                std::unique_ptr<LastingMemory::Hold> lasts = {}, bool on_host = true);
  // The memory in which a window of ours lies stays mapped until that is closed.
  void keep(uint32_t number, std::shared_ptr<const Segment> segment);
  // Forgets a window of ours; false when there is none. Nothing that uses it is under way.
  bool close(uint32_t number);
  // A peer's part. False: it cannot be, because the peer has told before, or is too far ahead.
  bool put(int32_t peer, uint32_t number, WindowPart part);
  // No peer will tell: the window is none for collectives.
  void give_up(uint32_t number);

  // How a rank's part is reached.
  struct Reach {
    enum class State : uint8_t {
      kNotYet,  // it has not told of it
      kNone,    // we have no such window
      kNear,    // through `part`
      kFar,     // through the peer's service thread
      kDevice,  // by kernels alone
    } state = State::kNone;
    std::span<std::byte> part;  // kFar: empty
  };
  Reach reach(int32_t peer, uint32_t number) const;
  // Gives our own part to somebody who works on it for a peer; it is not closed meanwhile.
  RemoteReply serve(uint32_t number, const std::function<RemoteReply(std::span<std::byte>)>& work);
  // Our parts are no longer ours to give: nobody is served any more.
  void shut();

  // Lock-free: this rank has no window.
  bool empty() const { return open_.load(std::memory_order_relaxed) == 0; }
  // Lock-free: another number after every change of what find() gives.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  // The window of ours that holds all these bytes, if any does.
  struct Found {
    WindowSpot spot;
    bool complete = true;    // all ranks have told of it, and
    bool reachable = false;  // all have these bytes and can be reached
    bool on_device = false;  // by kernels
  };
  Found find(const void* begin, size_t bytes) const;
  // All that a window of ours has, whatever other windows hold it too.
  Found whole(uint32_t number) const;
  // Some window of ours holds some of these bytes.
  bool holds(std::span<const std::byte> bytes) const;
  // Ranks that have not told of it yet.
  std::vector<int32_t> missing(uint32_t number) const;
  // Where each rank's part of a complete window begins; valid until it is closed.
  std::span<std::byte* const> begins(uint32_t number) const;
  // Each rank's part of a complete window of devices.
  std::vector<std::shared_ptr<DevicePart>> device_parts(uint32_t number) const;
  // That rank's; null: it has not told of the window, or it is none of devices.
  std::shared_ptr<DevicePart> device_part(uint32_t number, int32_t rank) const;
  // Each rank's inbox; empty: kernels of some rank do not reach that of another, or some rank has none. Who knows of a
  // complete window of devices knows this.
  std::vector<std::shared_ptr<DevicePart>> inboxes() const;
  // We have mapped that rank's part. No call uses the window's begins() meanwhile.
  void note_mapped(uint32_t number, int32_t rank, std::byte* begin);

 private:
  struct Window {
    std::vector<WindowPart> parts;               // by rank
    std::unique_ptr<LastingMemory::Hold> lasts;  // our part, until we close it
    std::shared_ptr<const Segment> keeps;        // in which it lies: it stays mapped so long, though it may be freed
    std::vector<std::byte*> begins;
    std::vector<bool> known;
    size_t unknown = 0;
    size_t usable = SIZE_MAX;  // bytes that all ranks have
    size_t on_devices = 0;     // parts
    bool reachable = true;
    bool told = true;            // to peers, who may map our part
    bool begins_at_page = true;  // each part
    bool ends_alone = true;      // each part, with what it was allocated with
    bool equal = true;           // the parts are of one length
  };

  Window& window(uint32_t number);
  const Window* find(uint32_t number) const;
  void enter(uint32_t number, Window& window, size_t rank, WindowPart part);
  static Found found_in(uint32_t number, const Window& window, size_t offset, size_t bytes);
  static bool fills_pages(const Window& window, size_t offset, size_t bytes);

  const int32_t rank_;
  const size_t ranks_;
  std::mutex serving_;  // taken before mutex_
  bool shut_ = false;   // guarded by serving_
  mutable std::mutex mutex_;
  std::map<uint32_t, std::unique_ptr<Window>> windows_;
  uint32_t last_ = 0;  // opened by this rank
  std::atomic<uint32_t> open_ = 0;
  std::atomic<uint64_t> changes_ = 0;
};

}  // namespace hocket
