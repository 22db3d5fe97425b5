// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a rank of a communicator exposes to its peers' devices: its parts of windows, registered in a protection domain
// that holds nothing else for peers, and for each peer the end of a connection that is only there to be written to and
// read from. All by one port; by another one, with a domain of its own, when the first is lost at either end.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "transports/lasting_memory.h"
#include "transports/verbs/registration.h"
#include "transports/verbs/remote_end.h"

namespace hocket {

class VerbsWindows final : public RemoteMemory, private LastingMemory::User {
 public:
  // The poller has news for who waits for a transfer.
  VerbsWindows(System& system, Poller& poller, const VerbsTable& table, VerbsRails& rails);
  ~VerbsWindows() override;
  // There is a port for it, at present.
  bool has_home() { return home() != nullptr; }
  VerbsWindows(const VerbsWindows&) = delete;
  VerbsWindows& operator=(const VerbsWindows&) = delete;

  void expose(uint32_t window, std::span<std::byte> part) override;
  void withdraw(uint32_t window) override;
  std::string admit(int32_t peer, std::string_view card, uint32_t window) override;
  void dismiss(int32_t peer) override;
  std::shared_ptr<RemoteEnd> open() override;

 private:
  struct Part {
    std::span<std::byte> bytes;
    std::map<const WindowDomain*, std::unique_ptr<Registration>> registrations;
  };
  struct Guest {
    std::string card;  // by which it came
    VerbsCard ours;
    std::shared_ptr<WindowDomain> domain;
    std::unique_ptr<QueuePair> pair;
  };

  // A part lasts until it is withdrawn.
  void forget(LastingMemory::Bytes) override {}
  void renew(LastingMemory::Bytes range) override;
  // Of a port that was taken of the rails. Null: its device gives none.
  std::shared_ptr<WindowDomain> domain_of(size_t port);
  // By which our own ends go and parts are registered first; another one than before when that is lost.
  std::shared_ptr<WindowDomain> home();
  std::unique_ptr<Registration> enlist(const WindowDomain& domain, std::span<std::byte> part) const;
  // Where the part is for guests of that domain; the card is still to be filled in.
  std::optional<WindowPlace> place_of(uint32_t window, const WindowDomain& domain);
  Result<Guest> receive(std::string_view card);

  System& system_;
  Poller& poller_;
  const VerbsTable& table_;
  VerbsRails& rails_;
  std::mutex domains_mutex_;
  std::map<size_t, std::shared_ptr<WindowDomain>> domains_;  // by port
  std::shared_ptr<WindowDomain> home_;
  std::mutex parts_mutex_;
  std::map<uint32_t, Part> parts_;
  std::mutex guests_mutex_;
  std::map<int32_t, Guest> guests_;
};

}  // namespace hocket
