// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Both ends of a pipe in one process, for any transport and any System: what the mesh does between two ranks, in small.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "transports/pipe.h"

namespace hocket::test {

// One way to make pipes. `within` runs a test's body with the system it is for.
struct Medium {
  std::string name;
  std::string transport;
  Address listen;       // for sockets
  uint64_t stream = 0;  // messages in a long test
  std::function<void(const std::function<void(System&)>&)> within;
  std::string receiving = {};  // the receiver's transport, as of another host; empty: the same
};

inline void PrintTo(const Medium& medium, std::ostream* out) { *out << medium.name; }

struct PipePair {
  std::unique_ptr<Poller> sender_poller;
  std::unique_ptr<Poller> receiver_poller;
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
};

// Connected sockets: first the connecting, then the accepted end.
struct SocketPair {
  std::unique_ptr<Socket> connected;
  std::unique_ptr<Socket> accepted;
};

SocketPair connect_pair(System& system, const Address& listen);
// From now on transport() finds this one, too.
void add_transport(const std::string& name, const Transport& transport);
// The transport of that name, which must exist.
const Transport& transport(std::string_view name);
PipePair make_pair(System& system, const Medium& medium, size_t max_message);

// Calls `ready` until it is true or ten seconds have passed; returns whether it became true.
bool wait_until(System& system, const std::function<bool()>& ready);

// Message contents that differ from one message to the next in every byte.
std::span<const std::byte> pattern(uint64_t message, size_t bytes);
Envelope envelope(uint64_t message);

}  // namespace hocket::test
