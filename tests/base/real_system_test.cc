// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The real system: sockets, handle passing, pollers and shared memory of this very machine.
#include "base/real_system.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace hocket {
namespace {

using std::chrono::milliseconds;

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

Time soon() { return real_system().clock.now() + std::chrono::seconds(5); }

struct Pair {
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Socket> client;
  std::unique_ptr<Socket> server;
};

// Accepts the connection that is on its way.
std::unique_ptr<Socket> accept_one(Listener& listener) {
  for (Time limit = soon(); real_system().clock.now() < limit;) {
    auto accepted = listener.accept();
    EXPECT_TRUE(accepted.ok()) << accepted.status().message();
    if (!accepted.ok() || *accepted != nullptr) return accepted.ok() ? std::move(*accepted) : nullptr;
    real_system().threads.yield();
  }
  return nullptr;
}

Pair connect_pair(const Address& address) {
  auto listener = real_system().network.listen(address);
  EXPECT_TRUE(listener.ok()) << listener.status().message();
  if (!listener.ok()) return {};
  auto client = real_system().network.connect((*listener)->address());
  EXPECT_TRUE(client.ok()) << client.status().message();
  if (!client.ok()) return {};
  auto server = accept_one(**listener);
  return {std::move(*listener), std::move(*client), std::move(server)};
}

// What arrives until `size` bytes are there; sends nothing.
std::string receive_text(Socket& socket, size_t size) {
  std::string text;
  std::array<std::byte, 256> buffer;
  for (Time limit = soon(); text.size() < size && real_system().clock.now() < limit;) {
    auto count = socket.receive(buffer);
    if (!count.ok()) return count.status().message();
    text.append(reinterpret_cast<const char*>(buffer.data()), *count);
  }
  return text;
}

// The failure that a socket reports in the end.
Status failure_of(Socket& socket) {
  std::array<std::byte, 256> buffer;
  for (Time limit = soon(); real_system().clock.now() < limit;) {
    if (auto count = socket.receive(buffer); !count.ok()) return count.status();
  }
  return {};
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

bool host_has_ipv6() {
  auto listener = real_system().network.listen("[::1]:0");
  return listener.ok();
}

class RealSocketTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam()[0] == '[' && !host_has_ipv6()) GTEST_SKIP() << "this host has no IPv6";
  }
};

TEST_P(RealSocketTest, GatheredPartsArriveInOrder) {
  Pair pair = connect_pair(GetParam());
  ASSERT_NE(pair.server, nullptr);
  const std::array<std::span<const std::byte>, 4> parts = {as_bytes("alpha "), {}, as_bytes("beta "), as_bytes("!")};
  auto sent = pair.client->send(parts);
  ASSERT_TRUE(sent.ok()) << sent.status().message();
  EXPECT_EQ(*sent, 12u);
  EXPECT_EQ(receive_text(*pair.server, 12), "alpha beta !");
  std::array<std::byte, 8> buffer;
  auto nothing = pair.server->receive(buffer);
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(*nothing, 0u);
}

TEST_P(RealSocketTest, AFullSocketAcceptsNothingAndLosesNothing) {
  Pair pair = connect_pair(GetParam());
  ASSERT_NE(pair.server, nullptr);
  std::vector<std::byte> block(1 << 16);
  const std::array<std::span<const std::byte>, 1> parts = {block};
  size_t sent = 0;
  for (;;) {
    auto count = pair.client->send(parts);
    ASSERT_TRUE(count.ok());
    if (*count == 0) break;
    sent += *count;
    ASSERT_LT(sent, size_t{1} << 30);
  }
  size_t received = 0;
  for (Time limit = soon(); received < sent && real_system().clock.now() < limit;) {
    auto count = pair.server->receive(block);
    ASSERT_TRUE(count.ok());
    received += *count;
  }
  EXPECT_EQ(received, sent);
}

// Until the other end has it; what goes over a unix socket is there at once.
TEST_P(RealSocketTest, WhatTheOtherEndHasNoRoomForIsUnderWay) {
  Pair pair = connect_pair(GetParam());
  ASSERT_NE(pair.server, nullptr);
  EXPECT_EQ(pair.client->under_way(), 0u);
  const std::string block(64 << 10, 'x');
  const std::span<const std::byte> part = as_bytes(block);
  size_t sent = 0;
  for (Result<size_t> taken = size_t{1}; *taken > 0; sent += *taken) {
    taken = pair.client->send(std::span(&part, 1));
    ASSERT_TRUE(taken.ok()) << taken.status().message();
  }
  const bool is_unix = std::string_view(GetParam()).starts_with("unix:");
  EXPECT_EQ(pair.client->under_way() > 0, !is_unix);
  EXPECT_EQ(receive_text(*pair.server, sent).size(), sent);
  for (Time limit = soon(); pair.client->under_way() > 0 && real_system().clock.now() < limit;)
    real_system().threads.yield();
  EXPECT_EQ(pair.client->under_way(), 0u);
}

TEST_P(RealSocketTest, EndOfStreamNamesThePeerAndEndsSending) {
  Pair pair = connect_pair(GetParam());
  ASSERT_NE(pair.server, nullptr);
  const std::string address = pair.listener->address();
  pair.server.reset();
  Status failure = failure_of(*pair.client);
  EXPECT_EQ(failure.code(), Code::kRemote);
  EXPECT_EQ(failure.message(), address + " closed the connection");
  const std::array<std::span<const std::byte>, 1> parts = {as_bytes("x")};
  Result<size_t> sent = size_t{0};
  for (Time limit = soon(); sent.ok() && real_system().clock.now() < limit;) sent = pair.client->send(parts);
  EXPECT_EQ(sent.status().code(), Code::kRemote);
}

// For ThreadSanitizer, too.
TEST_P(RealSocketTest, OneThreadSendsWhileAnotherReceivesUntilThePeerIsGone) {
  Pair pair = connect_pair(GetParam());
  std::thread sender([&] {
    const std::array<std::byte, 1> one{};
    const std::array<std::span<const std::byte>, 1> parts = {one};
    while (pair.client->send(parts).ok()) std::this_thread::yield();
  });
  std::thread receiver([&] {
    std::array<std::byte, 64> into{};
    while (pair.client->receive(into).ok()) std::this_thread::yield();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  pair.server.reset();
  sender.join();
  receiver.join();
  std::array<std::byte, 64> into{};
  const Status why = pair.client->receive(into).status();
  EXPECT_FALSE(why.ok());
  EXPECT_EQ(pair.client->receive(into).status().message(), why.message());
}

TEST_P(RealSocketTest, AcceptIsNullWhenNobodyWaits) {
  auto listener = real_system().network.listen(GetParam());
  ASSERT_TRUE(listener.ok());
  auto accepted = (*listener)->accept();
  ASSERT_TRUE(accepted.ok());
  EXPECT_EQ(*accepted, nullptr);
}

TEST_P(RealSocketTest, ARefusedConnectionNamesThePeer) {
  Address address;
  {
    auto listener = real_system().network.listen(GetParam());
    ASSERT_TRUE(listener.ok());
    address = (*listener)->address();
  }
  auto socket = real_system().network.connect(address);
  Status failure = socket.ok() ? failure_of(**socket) : socket.status();
  EXPECT_EQ(failure.code(), Code::kRemote);
  EXPECT_EQ(failure.message(), "cannot connect to " + address + ": connection refused");
  if (!socket.ok()) return;
  const std::span<const std::byte> part = as_bytes("x");
  EXPECT_EQ((*socket)->send(std::span(&part, 1)).status().message(), failure.message()) << "the cause is kept";
}

TEST_P(RealSocketTest, DescriptorsDoNotOutliveAnExec) {
  Pair pair = connect_pair(GetParam());
  ASSERT_NE(pair.server, nullptr);
  for (Handle each : {pair.listener->handle(), pair.client->handle(), pair.server->handle()}) {
    EXPECT_TRUE(::fcntl(each, F_GETFD) & FD_CLOEXEC);
    EXPECT_TRUE(::fcntl(each, F_GETFL) & O_NONBLOCK);
  }
}

TEST_P(RealSocketTest, APollerSeesConnectionDataAndEnd) {
  auto poller = real_system().network.make_poller();
  ASSERT_TRUE(poller.ok());
  auto listener = real_system().network.listen(GetParam());
  ASSERT_TRUE(listener.ok());
  ASSERT_TRUE((*poller)->add((*listener)->handle()).ok());
  auto client = real_system().network.connect((*listener)->address());
  ASSERT_TRUE(client.ok());
  EXPECT_EQ((*poller)->wait(soon()), std::vector{(*listener)->handle()});
  auto server = accept_one(**listener);
  ASSERT_NE(server, nullptr);

  ASSERT_TRUE((*poller)->add(server->handle()).ok());
  EXPECT_EQ((*poller)->wait(soon()), std::vector{server->handle()});  // it can be written to
  EXPECT_TRUE((*poller)->wait(real_system().clock.now()).empty());    // and that is no news any more
  const std::array<std::span<const std::byte>, 1> parts = {as_bytes("x")};
  ASSERT_TRUE((*client)->send(parts).ok());
  EXPECT_EQ((*poller)->wait(soon()), std::vector{server->handle()});
  client->reset();
  EXPECT_EQ((*poller)->wait(soon()), std::vector{server->handle()});
}

INSTANTIATE_TEST_SUITE_P(Kinds, RealSocketTest, testing::Values("127.0.0.1:0", "[::1]:0", "unix:"),
                         [](const auto& kind) {
                           return std::string(kind.param[0] == '1' ? "Ipv4" : kind.param[0] == '[' ? "Ipv6" : "Unix");
                         });

TEST(RealNetworkTest, ANamedUnixListenerIsReachedByItsName) {
  const Address address = "unix:hocket-test-" + std::to_string(::getpid());
  Pair pair = connect_pair(address);
  ASSERT_NE(pair.server, nullptr);
  EXPECT_EQ(pair.listener->address(), address);
  EXPECT_TRUE(has(pair.server->peer_name(), std::to_string(::getpid()))) << pair.server->peer_name();
  EXPECT_EQ(real_system().network.listen(address).status().code(), Code::kSystem);  // taken
}

// A process that is gone, and one that has too much to do.
TEST(RealNetworkTest, AUnixListenerThatIsGoneIsToldFromOneThatIsFull) {
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  const std::string name = "hocket-full-" + std::to_string(::getpid());
  std::copy(name.begin(), name.end(), place.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const auto connect = [&] { return real_system().network.connect("unix:" + name); };
  EXPECT_EQ(connect().status().code(), Code::kRemote);
  const Descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&place), length), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  const auto first = connect();
  EXPECT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(connect().status().code(), Code::kTimeout);
}

TEST(RealNetworkTest, AHostNameIsLookedUp) {
  Pair pair = connect_pair("127.0.0.1:0");
  ASSERT_NE(pair.server, nullptr);
  const Address numeric = pair.listener->address();
  auto client = real_system().network.connect("localhost" + numeric.substr(numeric.rfind(':')));
  ASSERT_TRUE(client.ok()) << client.status().message();
  EXPECT_NE(accept_one(*pair.listener), nullptr);
}

TEST(RealNetworkTest, BadAddressesAreRefused) {
  const std::vector<Address> addresses = {"",
                                          "nowhere",
                                          ":80",
                                          "127.0.0.1:",
                                          "127.0.0.1:65536",
                                          "127.0.0.1:-1",
                                          "127.0.0.1:8x",
                                          "::1:80",
                                          "[::1:80",
                                          "[]:80",
                                          "unix:" + std::string(200, 'x')};
  for (const Address& address : addresses) {
    auto socket = real_system().network.connect(address);
    EXPECT_EQ(socket.status().code(), Code::kInvalidArgument) << address;
    EXPECT_TRUE(has(socket.status().message(), "'" + address + "'")) << socket.status().message();
  }
}

TEST(RealNetworkTest, InterfacesEndWithTheLoopback) {
  auto interfaces = real_system().network.interfaces();
  ASSERT_TRUE(interfaces.ok());
  ASSERT_FALSE(interfaces->empty());
  bool loopback_seen = false;
  for (const InterfaceAddress& each : *interfaces) {
    EXPECT_FALSE(loopback_seen && !each.loopback) << each.interface;
    loopback_seen = loopback_seen || each.loopback;
    EXPECT_EQ(each.ipv6, has(each.host, ":"));
    EXPECT_FALSE(each.interface.empty());
  }
}

TEST(RealNetworkTest, HostIdentityIsStable) {
  const std::string identity = real_system().network.host_identity();
  EXPECT_EQ(identity.size(), 16u);
  EXPECT_EQ(identity, real_system().network.host_identity());
}

TEST(RealNetworkTest, HandlesPassOverUnixSockets) {
  Pair pair = connect_pair("unix:");
  ASSERT_NE(pair.server, nullptr);
  auto segment = real_system().memory.create(8192);
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  (*segment)->bytes()[8191] = std::byte{42};
  const std::array<Handle, 2> handles = {(*segment)->handle(), pair.listener->handle()};
  auto sent = pair.client->send_handles(as_bytes("take these"), handles);
  ASSERT_TRUE(sent.ok()) << sent.status().message();
  EXPECT_EQ(*sent, 10u);
  EXPECT_EQ(receive_text(*pair.server, 10), "take these");
  std::vector<Handle> taken = pair.server->take_handles();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_TRUE(pair.server->take_handles().empty());
  EXPECT_TRUE(::fcntl(taken[0], F_GETFD) & FD_CLOEXEC);
  real_system().network.close(taken[1]);
  EXPECT_EQ(::fcntl(taken[1], F_GETFD), -1);

  auto mapped = real_system().memory.map(taken[0], 8192);
  ASSERT_TRUE(mapped.ok()) << mapped.status().message();
  EXPECT_EQ((*mapped)->bytes()[8191], std::byte{42});
  (*mapped)->bytes()[0] = std::byte{7};
  EXPECT_EQ((*segment)->bytes()[0], std::byte{7});
}

TEST(RealNetworkTest, HandlesNobodyTookAreClosed) {
  Pair pair = connect_pair("unix:");
  ASSERT_NE(pair.server, nullptr);
  const std::array<Handle, 1> handles = {pair.listener->handle()};
  ASSERT_TRUE(pair.client->send_handles(as_bytes("x"), handles).ok());
  const int next = ::dup(0);  // the number that the handle will get
  ::close(next);
  receive_text(*pair.server, 1);
  EXPECT_NE(::fcntl(next, F_GETFD), -1);
  pair.server.reset();
  EXPECT_EQ(::fcntl(next, F_GETFD), -1);
}

TEST(RealNetworkTest, WhoSendsHandlesThatNobodyTakesIsCutOff) {
  Pair pair = connect_pair("unix:");
  ASSERT_NE(pair.server, nullptr);
  const std::vector<Handle> handles(40, pair.listener->handle());
  ASSERT_TRUE(pair.client->send_handles(as_bytes("x"), handles).ok());
  ASSERT_TRUE(pair.client->send_handles(as_bytes("y"), handles).ok());
  EXPECT_TRUE(has(failure_of(*pair.server).message(), "nobody took them"));
}

TEST(RealNetworkTest, TcpCarriesNoHandles) {
  Pair pair = connect_pair("127.0.0.1:0");
  ASSERT_NE(pair.server, nullptr);
  const std::array<Handle, 1> handles = {pair.listener->handle()};
  EXPECT_EQ(pair.client->send_handles(as_bytes("x"), handles).status().code(), Code::kInvalidUsage);
}

std::string congestion_control(Handle handle) {
  std::array<char, 16> name{};
  socklen_t length = name.size() - 1;
  EXPECT_EQ(::getsockopt(handle, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length), 0);
  return name.data();
}

// A connection that begins with BBR stays paced, and begins with what its listener has.
TEST(RealNetworkTest, ConnectionsWithinTheHostAreNotPaced) {
  const Pair pair = connect_pair("127.0.0.1:0");
  ASSERT_NE(pair.server, nullptr);
  for (const Handle each : {pair.listener->handle(), pair.client->handle(), pair.server->handle()})
    EXPECT_FALSE(congestion_control(each).starts_with("bbr"));
}

// From 127.0.0.1 to 127.0.0.2: to us, two hosts.
TEST(RealNetworkTest, ConnectionsBetweenHostsKeepWhatTheHostPacesThemBy) {
  const Pair pair = connect_pair("127.0.0.2:0");
  ASSERT_NE(pair.server, nullptr);
  const int fresh = ::socket(AF_INET, SOCK_STREAM, 0);
  for (const Handle each : {pair.client->handle(), pair.server->handle()})
    EXPECT_EQ(congestion_control(each), congestion_control(fresh));
  ::close(fresh);
}

int option_of(Handle handle, int option) {
  int value = -1;
  socklen_t length = sizeof value;
  EXPECT_EQ(::getsockopt(handle, SOL_SOCKET, option, &value, &length), 0);
  return value;
}

// Settings are read once per process.
TEST(RealNetworkDeathTest, WhoSpinsLooksIntoTheCardOfConnectionsBetweenHosts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int fresh = ::socket(AF_INET, SOCK_STREAM, 0);
  const int before = option_of(fresh, SO_BUSY_POLL);
  const int spin = 30;
  const bool may = ::setsockopt(fresh, SOL_SOCKET, SO_BUSY_POLL, &spin, sizeof spin) == 0;
  const int expected = may ? spin : option_of(fresh, SO_BUSY_POLL);
  ::close(fresh);
  const auto busy_poll = [](const Address& address) {
    ::setenv("HOCKET_SPIN", "30", 1);
    const Pair pair = connect_pair(address);
    return pair.server == nullptr ? -1 : option_of(pair.client->handle(), SO_BUSY_POLL);
  };
  EXPECT_EXIT(std::exit(busy_poll("127.0.0.2:0")), testing::ExitedWithCode(expected), "");
  EXPECT_EXIT(std::exit(busy_poll("127.0.0.1:0")), testing::ExitedWithCode(before), "");
}

// Pages that can tell where they were read: each send is of others.
class KeptPages {
 public:
  static constexpr size_t kSend = 64 << 10;

  std::span<const std::byte> fill(size_t number) {
    const std::span<std::byte> send = std::span(pages_).subspan(number % 32 * kSend, kSend);
    std::fill(send.begin(), send.end(), static_cast<std::byte>(number));
    return send;
  }

 private:
  std::vector<std::byte> pages_ = std::vector<std::byte>(32 * kSend);
};

void expect_that_all_come(Socket& sender, Socket& receiver, KeptPages& pages, size_t number, size_t bytes) {
  std::span<const std::byte> left = pages.fill(number).first(bytes);
  std::vector<std::byte> got(bytes);
  size_t come = 0;
  for (const Time limit = soon(); come < bytes && real_system().clock.now() < limit;) {
    const Result<size_t> sent = left.empty() ? Result<size_t>(size_t{0}) : sender.send_kept(left);
    ASSERT_TRUE(sent.ok()) << sent.status().message();
    left = left.subspan(*sent);
    const Result<size_t> some = receiver.receive(std::span(got).subspan(come));
    ASSERT_TRUE(some.ok()) << some.status().message();
    come += *some;
  }
  EXPECT_EQ(std::count(got.begin(), got.end(), static_cast<std::byte>(number)), static_cast<ptrdiff_t>(bytes));
}

// Within this host the kernel copies in any case, and says so.
TEST(RealNetworkTest, SendsWithoutACopyEndWhereTheyAreCopiedAfterAll) {
  const Pair pair = connect_pair("127.0.0.1:0");
  ASSERT_NE(pair.server, nullptr);
  KeptPages pages;
  expect_that_all_come(*pair.client, *pair.server, pages, 1, 4096);
  EXPECT_EQ(option_of(pair.client->handle(), SO_ZEROCOPY), 0) << "short ones are copied";
  expect_that_all_come(*pair.client, *pair.server, pages, 2, KeptPages::kSend);
  EXPECT_EQ(option_of(pair.client->handle(), SO_ZEROCOPY), 1);
  for (size_t number = 3; number < 100; ++number) {
    expect_that_all_come(*pair.client, *pair.server, pages, number, KeptPages::kSend);
  }
  EXPECT_EQ(option_of(pair.client->handle(), SO_ZEROCOPY), 0);
}

TEST(RealNetworkTest, RunningOutOfFilesIsAnErrorAndNotAHang) {
  auto listener = real_system().network.listen("127.0.0.1:0");
  ASSERT_TRUE(listener.ok());
  auto client = real_system().network.connect((*listener)->address());
  ASSERT_TRUE(client.ok());
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_NOFILE, &none);
  auto accepted = (*listener)->accept();
  auto poller = real_system().network.make_poller();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(accepted.status().code(), Code::kSystem);
  EXPECT_TRUE(has(accepted.status().message(), "too many open files")) << accepted.status().message();
  EXPECT_EQ(poller.status().code(), Code::kSystem);
  EXPECT_NE(accept_one(**listener), nullptr);
}

TEST(RealPollerTest, WakesFromAnotherThreadAndThroughItsHandle) {
  auto poller = real_system().network.make_poller();
  ASSERT_TRUE(poller.ok());
  std::atomic<int> waits = 0;
  auto thread = real_system().threads.start("waiter", [&] {
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE((*poller)->wait(Time::max()).empty());
      waits.store(i + 1);
      waits.notify_all();
    }
  });
  ASSERT_NE(thread, nullptr);
  (*poller)->wake();
  waits.wait(0);
  real_system().network.wake((*poller)->wake_handle());
  thread.reset();
  EXPECT_EQ(waits, 2);
}

TEST(RealPollerTest, AnEarlyWakeEndsTheNextWaitOnly) {
  auto poller = real_system().network.make_poller();
  ASSERT_TRUE(poller.ok());
  (*poller)->wake();
  (*poller)->wake();
  const Time begin = real_system().clock.now();
  (*poller)->wait(begin + std::chrono::seconds(5));
  EXPECT_LT(real_system().clock.now(), begin + std::chrono::seconds(2));
  const Time again = real_system().clock.now();
  (*poller)->wait(again + milliseconds(20));
  EXPECT_GE(real_system().clock.now(), again + milliseconds(20));
}

TEST(RealPollerTest, TimesOutWithinAMillisecondOfTheTime) {
  auto poller = real_system().network.make_poller();
  ASSERT_TRUE(poller.ok());
  Duration shortest = Duration::max();
  for (int i = 0; i < 20; ++i) {
    const Time begin = real_system().clock.now();
    (*poller)->wait(begin + std::chrono::microseconds(100));
    const Duration waited = real_system().clock.now() - begin;
    EXPECT_GE(waited, std::chrono::microseconds(100));
    shortest = std::min(shortest, waited);
  }
  EXPECT_LT(shortest, milliseconds(2));
}

TEST(RealPollerTest, APollerCanWatchAPoller) {
  auto inner = real_system().network.make_poller();
  auto outer = real_system().network.make_poller();
  ASSERT_TRUE(inner.ok() && outer.ok());
  ASSERT_TRUE((*outer)->add((*inner)->handle()).ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE((*outer)->wait(real_system().clock.now()).empty());
    (*inner)->wake();
    EXPECT_EQ((*outer)->wait(soon()), std::vector{(*inner)->handle()});
    EXPECT_TRUE((*inner)->wait(soon()).empty());
  }
}

TEST(RealPollerTest, ARemovedHandleHasNoNews) {
  Pair pair = connect_pair("unix:");
  auto poller = real_system().network.make_poller();
  ASSERT_TRUE(poller.ok());
  ASSERT_TRUE((*poller)->add(pair.client->handle()).ok());
  ASSERT_TRUE((*poller)->add(pair.client->handle()).ok());  // once more is no mistake
  (*poller)->remove(pair.client->handle());
  EXPECT_TRUE((*poller)->wait(real_system().clock.now()).empty());
  EXPECT_EQ((*poller)->add(9999).code(), Code::kSystem);
}

TEST(RealThreadsTest, AThreadHasItsNameAndNoSignals) {
  std::array<char, 16> name{};
  sigset_t blocked;
  auto thread = real_system().threads.start("a name too long for it", [&] {
    real_system().threads.sleep_until(real_system().clock.now() + milliseconds(5));
    pthread_getname_np(pthread_self(), name.data(), name.size());
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  });
  thread.reset();
  EXPECT_STREQ(name.data(), "a name too long");
  EXPECT_TRUE(sigismember(&blocked, SIGINT));
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_FALSE(sigismember(&blocked, SIGINT));
}

// What AMD's processors make of an address to guess its way in the first level cache (docs/decisions/0149).
unsigned way_hash(const std::byte* address) {
  constexpr std::array<std::array<unsigned, 2>, 8> kPairs = {
      {{12, 27}, {13, 26}, {14, 25}, {15, 20}, {16, 21}, {17, 22}, {18, 23}, {19, 24}}};
  const auto bits = reinterpret_cast<uintptr_t>(address);
  unsigned hash = 0;
  for (const auto& [low, high] : kPairs) hash = hash << 1 | ((bits >> low ^ bits >> high) & 1);
  return hash;
}

// A loop through equal places of two that have the same would be slow.
TEST(RealMemoryTest, PlacesOfLongSegmentsDifferInTheWaysThatAreGuessedOfThem) {
  constexpr size_t kPage = 4096, kManyPages = size_t{4} << 20, kStep = (size_t{2} << 20) + kPage;
  for (const size_t mib : {4u, 6u, 32u, 64u, 128u, 191u, 256u}) {
    const size_t bytes = mib << 20;  // none of which is touched
    std::vector<std::unique_ptr<Segment>> segments;
    for (int i = 0; i < 8; ++i) {
      auto segment = real_system().memory.create(bytes);
      ASSERT_TRUE(segment.ok()) << segment.status().message();
      segments.push_back(std::move(*segment));
    }
    for (size_t at = 0; at < bytes; at += at < kManyPages ? kPage : kStep) {
      std::set<unsigned> hashes;
      for (const auto& segment : segments) hashes.insert(way_hash(segment->bytes().data() + at));
      ASSERT_EQ(hashes.size(), segments.size()) << mib << " MiB, at " << at;
    }
  }
}

TEST(RealMemoryTest, LongSegmentsTakeNoAddressesOfOthers) {
  constexpr size_t kBytes = (size_t{4} << 20) + 100;
  std::map<uint8_t, std::unique_ptr<Segment>> segments;  // by what each has at both ends
  for (uint8_t i = 1; i <= 40; ++i) {
    auto segment = real_system().memory.create(kBytes);
    ASSERT_TRUE(segment.ok()) << segment.status().message();
    (*segment)->bytes().front() = (*segment)->bytes().back() = std::byte{i};
    segments[i] = std::move(*segment);
    if (i % 3 == 0) segments.erase(i / 3);
  }
  for (const auto& [number, segment] : segments) {
    EXPECT_EQ(segment->bytes().front(), std::byte{number});
    EXPECT_EQ(segment->bytes().back(), std::byte{number});
  }
}

// Then they lie where there is room.
TEST(RealMemoryTest, LongSegmentsDoWithFewAddresses) {
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const struct rlimit few = {pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + (size_t{64} << 20),
                             before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &few), 0);
  auto segment = real_system().memory.create(size_t{8} << 20);
  auto too_long = real_system().memory.create(size_t{512} << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  (*segment)->bytes().back() = std::byte{1};
  EXPECT_TRUE(has(too_long.status().message(), "cannot map 536870912 bytes of shared memory"));
}

TEST(RealMemoryTest, ASegmentIsZeroAndNobodyCanShrinkIt) {
  auto segment = real_system().memory.create(100000);
  ASSERT_TRUE(segment.ok());
  EXPECT_EQ((*segment)->bytes().size(), 100000u);
  for (std::byte each : (*segment)->bytes()) ASSERT_EQ(each, std::byte{0});
  EXPECT_EQ(::ftruncate((*segment)->handle(), 0), -1);
  EXPECT_TRUE(::fcntl((*segment)->handle(), F_GETFD) & FD_CLOEXEC);
}

TEST(RealMemoryTest, WhatIsTooSmallOrNoMemoryIsRefused) {
  auto segment = real_system().memory.create(4096);
  ASSERT_TRUE(segment.ok());
  auto mapped = real_system().memory.map(::dup((*segment)->handle()), 4097);
  EXPECT_EQ(mapped.status().code(), Code::kInternal);
  EXPECT_TRUE(has(mapped.status().message(), "4096 bytes of shared memory, 4097 are needed"));
  auto poller = real_system().network.make_poller();
  const Handle refused = ::dup((*poller)->wake_handle());
  EXPECT_FALSE(real_system().memory.map(refused, 8).ok());
  EXPECT_EQ(::fcntl(refused, F_GETFD), -1);  // it was owned all the same
  EXPECT_EQ(real_system().memory.create(0).status().code(), Code::kInvalidArgument);
  EXPECT_FALSE(real_system().memory.create(SIZE_MAX / 2).ok());
}

TEST(RealMemoryTest, ALimitOnFilesIsAnErrorAndNoSignal) {
  const auto exceed = [] {
    const struct rlimit limit{8192, 8192};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = real_system().memory.create(8193).status();
    ::_exit(has(status.message(), "8193 bytes") && has(status.message(), "ulimit -f") ? 0 : 1);
  };
  EXPECT_EXIT(exceed(), testing::ExitedWithCode(0), "");
}

TEST(RealMemoryTest, TheFallbackIsSharedTooAndChecksItsRoom) {
  auto segment = create_segment_in_dev_shm(10000);
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  auto mapped = real_system().memory.map(::dup((*segment)->handle()), 10000);
  ASSERT_TRUE(mapped.ok()) << mapped.status().message();
  (*segment)->bytes()[9999] = std::byte{3};
  EXPECT_EQ((*mapped)->bytes()[9999], std::byte{3});
  auto too_much = create_segment_in_dev_shm(size_t{1} << 50);
  EXPECT_EQ(too_much.status().code(), Code::kSystem);
  EXPECT_TRUE(has(too_much.status().message(), "shared memory")) << too_much.status().message();
}

}  // namespace
}  // namespace hocket
