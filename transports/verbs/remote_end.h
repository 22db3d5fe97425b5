// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Our end of a connection to one peer, by which the device writes and reads the peer's windows. What does not lie in
// memory that lasts goes through a few registered slots. A put is done when something was read after it: what the
// peer's device has acknowledged may still be on its way to memory.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/system.h"
#include "transports/page_memory.h"
#include "transports/remote_memory.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/rails.h"
#include "transports/verbs/silence.h"

namespace hocket {

// A port, and a protection domain of its device in which windows and nothing else can be reached.
class WindowDomain {
 public:
  // The port was taken of the rails, which outlive it.
  WindowDomain(const VerbsTable& table, VerbsRails& rails, size_t port);
  ~WindowDomain();
  WindowDomain(const WindowDomain&) = delete;
  WindowDomain& operator=(const WindowDomain&) = delete;

  const VerbsTable& table() const { return table_; }
  const VerbsPort& port() const { return rails_.port(port_); }
  bool is_up() const { return rails_.is_up(port_); }
  ibv_pd* get() const { return domain_; }  // null: the device gives none
  size_t number() const { return port_; }
  // The last connection by it broke, before anything went by a later one.
  bool has_broken() const { return broken_; }
  void set_broken(bool broken) { broken_ = broken; }

 private:
  const VerbsTable& table_;
  VerbsRails& rails_;
  const size_t port_;
  ibv_pd* const domain_;
  std::atomic<bool> broken_ = false;
};

// What the owner of a part tells of it.
struct WindowPlace {
  static constexpr size_t kBytes = VerbsCard::kBytes + 12;

  VerbsCard card;  // of its end
  uint64_t address = 0;
  uint32_t key = 0;
};
std::string encode_place(const WindowPlace& place);
Status decode_place(std::string_view text, uint64_t bytes, WindowPlace* place);

class VerbsRemoteEnd final : public RemoteEnd, public std::enable_shared_from_this<VerbsRemoteEnd> {
 public:
  static Result<std::shared_ptr<RemoteEnd>> open(System& system, Poller& poller, std::shared_ptr<WindowDomain> domain);
  ~VerbsRemoteEnd() override;

  const std::string& card() const override { return card_; }
  Status enter(uint32_t window, std::string_view answer, uint64_t bytes) override;
  std::unique_ptr<RemoteTransfer> put(uint32_t window, uint64_t offset, std::span<const std::byte> from) override;
  std::unique_ptr<RemoteTransfer> get(uint32_t window, uint64_t offset, std::span<std::byte> into) override;

 private:
  friend class VerbsTransfer;
  static constexpr size_t kSlot = 64 << 10;
  static constexpr size_t kSlots = 4;

  VerbsRemoteEnd(System& system, Poller& poller, std::shared_ptr<WindowDomain> domain);
  std::unique_ptr<RemoteTransfer> transfer(uint32_t window, uint64_t offset, std::span<std::byte> local, bool puts);
  Status prepare();
  // What follows is done by who holds the mutex.
  Status poll();
  Status watch();
  Status arm();
  // The device does nothing for this end any more.
  Status end(Status why);
  // The same, and another port may do better.
  Status lose(const Status& why);
  std::byte* take_slot();
  void give_slot(const std::byte* slot) { slots_[static_cast<size_t>(slot - memory_.bytes().data()) / kSlot] = false; }
  // Where what is read after a put goes.
  std::span<std::byte> trash() const { return memory_.bytes().subspan(kSlots * kSlot); }

  System& system_;
  Poller& poller_;
  const std::shared_ptr<WindowDomain> domain_;
  PageMemory memory_;
  std::string card_;
  VerbsGid gid_;
  std::mutex mutex_;
  std::unique_ptr<QueuePair> pair_;  // null: it has ended
  Status ended_;                     // why
  std::string peer_card_;            // empty: not connected
  std::map<uint32_t, WindowPlace> places_;
  std::array<bool, kSlots> slots_{};  // in use
  uint32_t looks_ = 0;
  Silence silence_;
  Time next_watch_{};
};

}  // namespace hocket
