// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What devices do for a rank's one-sided calls: the memory that its transports expose to peers, and its door to each
// peer that a transport with such devices reaches.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/remote_door.h"
#include "transports/pipe.h"

namespace hocket {

class RemoteDoors {
 public:
  // `peer` is told of in warnings by what `describe` says.
  using Ask = std::function<std::shared_ptr<const RemoteAnswer>(int32_t peer, const RemoteRequest&)>;
  using Describe = std::function<std::string(int32_t peer)>;
  RemoteDoors(System& system, Poller& poller, Ask ask, Describe describe);

  // Our part of a window, to be reached by the devices of these transports (by peer; null: none reaches it).
  void expose(std::span<const Transport* const> transports, uint32_t window, std::span<std::byte> part);
  // A window of ours is closed.
  void withdraw(uint32_t window);
  // For a peer's device; the answer is for its transport alone. Service thread.
  std::string admit(int32_t peer, std::string_view card, uint32_t window);
  void dismiss(int32_t peer);
  // To a peer; null: no device reaches it. Valid until shut().
  RemoteDoor* to(int32_t peer);
  // Nothing is exposed and no device works any more. No call of the user's is under way.
  void shut();

 private:
  // Of the transport that reaches that peer. Called by who holds the mutex.
  RemoteMemory* memory(int32_t peer) const;
  std::vector<RemoteMemory*> memories(std::span<const Transport* const> transports);

  System& system_;
  Poller& poller_;
  const Ask ask_;
  const Describe describe_;
  mutable std::mutex mutex_;
  std::map<const Transport*, std::unique_ptr<RemoteMemory>> memories_;  // null: it has none
  std::vector<const Transport*> transports_;                            // by peer, since something was exposed
  std::map<int32_t, std::unique_ptr<RemoteDoor>> doors_;                // by peer; ends go before memories
};

}  // namespace hocket
