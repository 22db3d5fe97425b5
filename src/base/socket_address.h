// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The text form of addresses and the kernel's, both ways. Real system only.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "base/system.h"

namespace hocket {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

// All addresses behind "host:port", "[ipv6]:port" or "unix:NAME", best first. A host name is looked up, which may
// block.
Result<std::vector<SocketAddress>> resolve(const Address& address);

// The text form, always numeric.
Address address_text(const SocketAddress& address);

// Only the host: "10.0.0.7", "fe80::1%eth0".
std::string host_text(const sockaddr* address);

}  // namespace hocket
