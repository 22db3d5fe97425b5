// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "pipe_pair.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace hocket::test {
namespace {

// A test that cannot even be set up has nothing to report but this.
template <typename T>
T must(Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.status().message();
    std::abort();
  }
  return std::move(*result);
}

std::map<std::string, const Transport*, std::less<>>& added_transports() {
  static std::map<std::string, const Transport*, std::less<>> added;
  return added;
}

// As between processes: duplicates of the handles, through a local socket.
std::vector<Handle> pass(System& system, const std::vector<Handle>& handles) {
  static int number = 0;
  SocketPair pair = connect_pair(system, fmt::format("unix:hocket-test-{}-{}", std::rand(), number++));
  const std::byte one{1};
  EXPECT_TRUE(wait_until(system, [&] { return must(pair.connected->send_handles({&one, 1}, handles)) == 1; }));
  std::byte got;
  EXPECT_TRUE(wait_until(system, [&] { return must(pair.accepted->receive({&got, 1})) == 1; }));
  return pair.accepted->take_handles();
}

}  // namespace

SocketPair connect_pair(System& system, const Address& listen) {
  auto listener = must(system.network.listen(listen));
  SocketPair pair;
  pair.connected = must(system.network.connect(listener->address()));
  EXPECT_TRUE(wait_until(system, [&] {
    pair.accepted = must(listener->accept());
    return pair.accepted != nullptr;
  }));
  return pair;
}

void add_transport(const std::string& name, const Transport& transport) { added_transports()[name] = &transport; }

const Transport& transport(std::string_view name) {
  const auto added = added_transports().find(name);
  return added != added_transports().end() ? *added->second : *must(choose_transports(name)).front();
}

PipePair make_pair(System& system, const Medium& medium, size_t max_message) {
  PipePair pair;
  pair.sender_poller = must(system.network.make_poller());
  pair.receiver_poller = must(system.network.make_poller());
  const Transport& chosen = transport(medium.transport);
  const Transport& receiving = medium.receiving.empty() ? chosen : transport(medium.receiving);
  Offer offer;
  Offer received;
  if (chosen.carrier() == Transport::Carrier::kSocket) {
    SocketPair sockets = connect_pair(system, medium.listen);
    offer.socket = std::move(sockets.connected);
    received.socket = std::move(sockets.accepted);
  }
  const PipeContext at_sender{
      system, *pair.sender_poller, [&poller = *pair.receiver_poller] { poller.wake(); }, max_message, "rank 1",
      true,   chosen.make_ties()};
  const PipeContext at_receiver{
      system, *pair.receiver_poller, [&poller = *pair.sender_poller] { poller.wake(); }, max_message, "rank 0",
      true,   receiving.make_ties()};
  pair.sender = must(chosen.open(at_sender, offer));
  received.object = offer.object;
  if (!offer.handles.empty()) received.handles = pass(system, offer.handles);
  pair.receiver = must(receiving.accept(at_receiver, std::move(received)));
  return pair;
}

bool wait_until(System& system, const std::function<bool()>& ready) {
  const Time end = system.clock.now() + std::chrono::seconds(10);
  while (!ready()) {
    if (system.clock.now() > end) return false;
    system.threads.yield();
  }
  return true;
}

std::span<const std::byte> pattern(uint64_t message, size_t bytes) {
  constexpr size_t kPeriod = 251;
  static const std::vector<std::byte> kBytes = [] {
    std::vector<std::byte> filled((size_t{2} << 20) + kPeriod);
    for (size_t i = 0; i < filled.size(); ++i) filled[i] = static_cast<std::byte>(i % kPeriod);
    return filled;
  }();
  return {kBytes.data() + message % kPeriod, bytes};
}

Envelope envelope(uint64_t message) {
  const auto low = static_cast<uint32_t>(message);
  return {low / 7 * 2654435761u, low};
}

}  // namespace hocket::test
