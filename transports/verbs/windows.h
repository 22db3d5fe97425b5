// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a rank of a communicator exposes to its peers' devices: its parts of windows, registered in a protection domain
// that holds nothing else for peers, and for each peer the end of a connection that is only there to be written to and
// read from. All by one port; whom it does not reach goes another way.
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
  VerbsWindows(System& system, Poller& poller, std::shared_ptr<WindowDomain> domain);
  ~VerbsWindows() override;
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
    std::unique_ptr<Registration> registration;
  };
  struct Guest {
    std::string card;  // by which it came
    VerbsCard ours;
    std::unique_ptr<QueuePair> pair;
  };

  // A part lasts until it is withdrawn.
  void forget(LastingMemory::Bytes) override {}
  void renew(LastingMemory::Bytes range) override;
  // Where the part is; the card is still to be filled in.
  std::optional<WindowPlace> place_of(uint32_t window);
  Result<Guest> receive(std::string_view card) const;

  System& system_;
  Poller& poller_;
  const std::shared_ptr<WindowDomain> domain_;
  std::mutex parts_mutex_;
  std::map<uint32_t, Part> parts_;
  std::mutex guests_mutex_;
  std::map<int32_t, Guest> guests_;
};

}  // namespace hocket
