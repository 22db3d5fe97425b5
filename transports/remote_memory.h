// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One-sided access by devices, for transports that have it: a rank exposes its parts of windows, and its peers' devices
// write and read there while it does something else. How the two ends hear of each other is not said here; what they
// tell each other is opaque text. Knows of a window no more than its number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/system.h"

namespace hocket {

// A put or a get under way. One thread at a time; no method blocks.
class RemoteTransfer {
 public:
  // No device touches the caller's memory any more.
  virtual ~RemoteTransfer() = default;
  // Moves what can be moved. Fails when the connection is broken: then nobody knows what was moved.
  virtual Status advance() = 0;
  // So much of it has moved.
  virtual size_t moved() const = 0;
  // The other side's memory has it, or ours.
  virtual bool done() const = 0;
  // The caller is about to sleep: the poller has news when something moves. Look once more after that.
  virtual Status arm() = 0;
};

// Our end of the connection to one peer. Any thread.
class RemoteEnd {
 public:
  virtual ~RemoteEnd() = default;
  // What the peer must know of it.
  virtual const std::string& card() const = 0;
  // What the peer has answered to the card, when asked for a window: its part has so many bytes. Fails when that cannot
  // be, or cannot be reached.
  virtual Status enter(uint32_t window, std::string_view answer, uint64_t bytes) = 0;
  // To and from the peer's part of a window that was entered; the bytes are within it.
  virtual std::unique_ptr<RemoteTransfer> put(uint32_t window, uint64_t offset, std::span<const std::byte> from) = 0;
  virtual std::unique_ptr<RemoteTransfer> get(uint32_t window, uint64_t offset, std::span<std::byte> into) = 0;
};

// What a rank of a communicator exposes, and where its ends come from. Any thread.
class RemoteMemory {
 public:
  virtual ~RemoteMemory() = default;
  // Peers may write and read there from now on, if the device takes it.
  virtual void expose(uint32_t window, std::span<std::byte> part) = 0;
  // No device does so when this has returned.
  virtual void withdraw(uint32_t window) = 0;
  // The end of a peer that shows this card may reach our part of the window: what it must know for it. Empty: it
  // cannot.
  virtual std::string admit(int32_t peer, std::string_view card, uint32_t window) = 0;
  // Nothing that the peer has sent is written from now on; it may come again with another card.
  virtual void dismiss(int32_t peer) = 0;
  // An end for one peer. Null: there is none now.
  virtual std::shared_ptr<RemoteEnd> open() = 0;
};

// What a transport (pipe.h) is beside, whose devices do that.
class RemoteTransport {
 public:
  virtual ~RemoteTransport() = default;
  // For one rank and the peers that the transport reaches; the poller wakes those who wait. Null: there is none now.
  virtual std::unique_ptr<RemoteMemory> remote_memory(System& system, Poller& poller) const = 0;
};

}  // namespace hocket
