// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The simulated system: that it behaves like a system, that a seed decides everything, and that it reports what hangs.
#include "base/simulated_system.h"

#include <gtest/gtest.h>

#include <array>
#include <exception>
#include <set>
#include <string>
#include <vector>

#include "base/reactor.h"

namespace hocket {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Blocking helpers, as naive programs would have them.
std::unique_ptr<Socket> accept_one(System& system, Listener& listener) {
  auto poller = system.network.make_poller();
  EXPECT_TRUE((*poller)->add(listener.handle()).ok());
  for (;;) {
    auto accepted = listener.accept();
    if (!accepted.ok() || *accepted != nullptr) return std::move(*accepted);
    (void)(*poller)->wait(Time::max());
  }
}

Status send_all(Poller& poller, Socket& socket, std::string_view text) {
  for (std::span<const std::byte> left = as_bytes(text); !left.empty();) {
    auto sent = socket.send(std::span(&left, 1));
    if (!sent.ok()) return sent.status();
    left = left.subspan(*sent);
    if (*sent == 0) (void)poller.wait(Time::max());
  }
  return {};
}

Result<std::string> receive_all(Poller& poller, Socket& socket, size_t size) {
  std::string text(size, '\0');
  for (size_t received = 0; received < size;) {
    auto count = socket.receive(std::as_writable_bytes(std::span(text)).subspan(received));
    if (!count.ok()) return count.status();
    received += *count;
    if (*count == 0) (void)poller.wait(Time::max());
  }
  return text;
}

// Two hosts pass a growing text back and forth.
void ping_pong(SimulatedSystem& simulation, int rounds) {
  System& a = simulation.host("a");
  System& b = simulation.host("b");
  auto listener = a.network.listen("10.0.0.1:4411");
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  auto server = a.threads.start("server", [&] {
    auto socket = accept_one(a, **listener);
    ASSERT_NE(socket, nullptr);
    auto poller = a.network.make_poller();
    ASSERT_TRUE((*poller)->add(socket->handle()).ok());
    for (int i = 1; i <= rounds; ++i) {
      auto text = receive_all(**poller, *socket, static_cast<size_t>(100 * i));
      ASSERT_TRUE(text.ok()) << text.status().message();
      ASSERT_TRUE(send_all(**poller, *socket, *text + "!").ok());
    }
  });
  auto client = b.threads.start("client", [&] {
    auto socket = b.network.connect("a:4411");
    ASSERT_TRUE(socket.ok()) << socket.status().message();
    auto poller = b.network.make_poller();
    ASSERT_TRUE((*poller)->add((*socket)->handle()).ok());
    for (int i = 1; i <= rounds; ++i) {
      const std::string text(static_cast<size_t>(100 * i), static_cast<char>('a' + i % 26));
      ASSERT_TRUE(send_all(**poller, **socket, text).ok());
      auto answer = receive_all(**poller, **socket, text.size() + 1);
      ASSERT_TRUE(answer.ok()) << answer.status().message();
      ASSERT_EQ(*answer, text + "!");
    }
  });
}

uint64_t hash_of_ping_pong(uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  options.socket_buffer = 256;
  SimulatedSystem simulation(options);
  const Status status = simulation.run([&] { ping_pong(simulation, 10); });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(simulation.open_handles(), 0u);
  return simulation.trace_hash();
}

TEST(SimulatedSystemTest, TheSeedDecidesEverything) {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const uint64_t hash = hash_of_ping_pong(seed);
    EXPECT_EQ(hash_of_ping_pong(seed), hash) << "seed " << seed;
    hashes.insert(hash);
  }
  EXPECT_EQ(hashes.size(), 10u);
}

TEST(SimulatedSystemTest, TheSeedDecidesTheOrderOfThreads) {
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    SimulatedSystem simulation(options);
    System& system = simulation.host("a");
    std::string order;
    const Status status = simulation.run([&] {
      std::vector<std::unique_ptr<Thread>> threads;
      for (const char name : {'x', 'y', 'z'}) {
        threads.push_back(system.threads.start("one", [&order, name] { order += name; }));
      }
    });
    EXPECT_TRUE(status.ok()) << status.message();
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 6u) << "20 seeds should find every order of three threads";
}

TEST(SimulatedSystemTest, ThreadsAreToldApartAndKnowTheirHost) {
  SimulatedSystem simulation;
  System& system = simulation.host("a");
  std::set<const void*> all = {system.threads.self()};
  const Status status = simulation.run([&] {
    const auto note = [&] {
      const void* const self = system.threads.self();
      EXPECT_TRUE(all.insert(self).second);
      system.threads.yield();
      EXPECT_EQ(system.threads.self(), self);
    };
    auto one = system.threads.start("one", note);
    auto other = system.threads.start("other", note);
    note();
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(all.count(nullptr), 0u);
  EXPECT_EQ(system.threads.host().name, "a");
}

// Also while nothing but unwinding has called them.
TEST(SimulatedSystemTest, AThreadMayWaitWhileItHandlesAnException) {
  SimulatedSystem simulation;
  System& system = simulation.host("a");
  const Status status = simulation.run([&] {
    std::vector<std::unique_ptr<Thread>> threads;
    for (int number = 0; number < 3; ++number) {
      threads.push_back(system.threads.start("one", [&, number] {
        try {
          auto other = system.threads.start("other", [&] { system.threads.yield(); });
          throw number;  // joins the other
        } catch (int) {
          for (int i = 0; i < 10; ++i) system.threads.yield();
          try {
            throw;
          } catch (int caught) {
            EXPECT_EQ(caught, number);
          }
        }
        EXPECT_EQ(std::current_exception(), nullptr);
      }));
    }
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(SimulatedSystemTest, TimeIsVirtual) {
  SimulatedSystem simulation;
  System& system = simulation.host("a");
  const Time real = real_system().clock.now();
  std::vector<std::string> order;
  const Status status = simulation.run([&] {
    const Time begin = system.clock.now();
    auto late = system.threads.start("late", [&] {
      system.threads.sleep_until(begin + seconds(1000));
      order.push_back("late");
    });
    auto early = system.threads.start("early", [&] {
      system.threads.sleep_until(begin + seconds(10));
      order.push_back("early");
      EXPECT_LT(system.clock.now(), begin + seconds(11));
    });
    late.reset();
    EXPECT_GE(system.clock.now(), begin + seconds(1000));
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(order, (std::vector<std::string>{"early", "late"}));
  EXPECT_LT(real_system().clock.now() - real, seconds(2));
}

TEST(SimulatedSystemTest, WhoLooksAtTheClockOrYieldsSeesItMove) {
  SimulatedSystem simulation;
  System& system = simulation.host("a");
  const Status status = simulation.run([&] {
    for (const Time limit = system.clock.now() + microseconds(10); system.clock.now() < limit;) {
    }
    const Time before = simulation.now();
    system.threads.yield();
    EXPECT_GT(simulation.now(), before);
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(SimulatedSystemTest, LatencyIsThatOfTheLink) {
  SimulatedSystem simulation;
  System& a = simulation.host("a");
  System& b = simulation.host("b");
  simulation.set_latency("b", "a", milliseconds(10));
  const Status status = simulation.run([&] {
    auto listener = a.network.listen("0.0.0.0:80");
    ASSERT_TRUE(listener.ok());
    const Time begin = b.clock.now();
    auto socket = b.network.connect("10.0.0.1:80");
    auto poller = b.network.make_poller();
    ASSERT_TRUE((*poller)->add((*socket)->handle()).ok());
    EXPECT_EQ((*poller)->wait(Time::max()), std::vector{(*socket)->handle()});
    const Duration taken = b.clock.now() - begin;
    EXPECT_GE(taken, milliseconds(20));
    EXPECT_LT(taken, milliseconds(21));
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(SimulatedSystemTest, ACutTakesWhatIsUnderWayToo) {
  SimulatedSystem simulation;
  System& a = simulation.host("a");
  System& b = simulation.host("b");
  const Status status = simulation.run([&] {
    auto listener = a.network.listen("10.0.0.1:80");
    auto client = b.network.connect("a:80");
    auto server = accept_one(a, **listener);
    auto poller = b.network.make_poller();
    ASSERT_TRUE((*poller)->add((*client)->handle()).ok());
    ASSERT_TRUE(send_all(**poller, **client, "before").ok());
    auto watcher = a.network.make_poller();
    ASSERT_TRUE((*watcher)->add(server->handle()).ok());
    EXPECT_EQ(*receive_all(**watcher, *server, 6), "before");
    ASSERT_TRUE(send_all(**poller, **client, "under way").ok());
    simulation.cut_off("b");
    client->reset();
    auto late = b.network.connect("a:80");
    a.threads.sleep_until(a.clock.now() + seconds(10));
    std::array<std::byte, 16> bytes;
    const auto got = server->receive(bytes);
    EXPECT_TRUE(got.ok() && *got == 0) << "neither bytes nor the end of the stream get through";
    EXPECT_EQ(*(*listener)->accept(), nullptr);
    auto local = a.network.connect("a:80");
    EXPECT_NE(accept_one(a, **listener), nullptr) << "a host reaches itself";
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(SimulatedSystemTest, BuffersAreBoundedAndRoomIsNews) {
  SimulationOptions options;
  options.socket_buffer = 1000;
  SimulatedSystem simulation(options);
  System& system = simulation.host("a");
  const Status status = simulation.run([&] {
    auto listener = system.network.listen("unix:x");
    auto client = system.network.connect("unix:x");
    auto server = accept_one(system, **listener);
    auto poller = system.network.make_poller();
    ASSERT_TRUE((*poller)->add((*client)->handle()).ok());
    (void)(*poller)->wait(system.clock.now() + milliseconds(1));
    const std::string text(600, 'x');
    const auto part = as_bytes(text);
    size_t sent = 0;
    for (int i = 0; i < 100; ++i) sent += *(*client)->send(std::span(&part, 1));
    EXPECT_EQ(sent, 1000u);
    EXPECT_EQ((*client)->send_handles(as_bytes("x"), {}).value(), 0u) << "whole or not at all";
    (void)(*poller)->wait(system.clock.now() + milliseconds(1));
    EXPECT_TRUE((*poller)->wait(system.clock.now() + milliseconds(1)).empty());
    std::array<std::byte, 100> buffer;
    EXPECT_EQ(server->receive(buffer).value(), 100u);
    EXPECT_EQ((*poller)->wait(Time::max()), std::vector{(*client)->handle()});
    EXPECT_EQ(*(*client)->send(std::span(&part, 1)) > 0, true);
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(SimulatedSystemTest, EndsAndRefusalsNameThePeer) {
  SimulatedSystem simulation;
  System& a = simulation.host("a");
  System& b = simulation.host("b");
  const Status status = simulation.run([&] {
    auto poller = b.network.make_poller();
    auto nobody = b.network.connect("10.0.0.1:80");
    ASSERT_TRUE(nobody.ok());
    ASSERT_TRUE((*poller)->add((*nobody)->handle()).ok());
    auto refused = receive_all(**poller, **nobody, 1);
    EXPECT_EQ(refused.status().code(), Code::kRemote);
    EXPECT_EQ(refused.status().message(), "cannot connect to 10.0.0.1:80: connection refused");

    auto listener = a.network.listen("10.0.0.1:80");
    EXPECT_EQ(a.network.listen("10.0.0.1:80").status().code(), Code::kSystem);
    EXPECT_EQ(b.network.listen("10.0.0.1:81").status().code(), Code::kSystem);
    auto client = b.network.connect("10.0.0.1:80");
    ASSERT_TRUE((*poller)->add((*client)->handle()).ok());
    auto server = accept_one(a, **listener);
    auto server_poller = a.network.make_poller();
    EXPECT_TRUE(send_all(**server_poller, *server, "last words").ok());
    server.reset();
    EXPECT_EQ(receive_all(**poller, **client, 10).value(), "last words");
    auto end = receive_all(**poller, **client, 1);
    EXPECT_EQ(end.status().code(), Code::kRemote);
    EXPECT_EQ(end.status().message(), "10.0.0.1:80 closed the connection");
    EXPECT_EQ(send_all(**poller, **client, "too late").code(), Code::kRemote);

    EXPECT_EQ(b.network.connect("unix:x").status().code(), Code::kRemote);
    EXPECT_EQ(b.network.connect("nowhere:80").status().code(), Code::kSystem);
    EXPECT_EQ(b.network.connect("80").status().code(), Code::kInvalidArgument);
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(simulation.open_handles(), 0u);
}

TEST(SimulatedSystemTest, HandlesAndMemoryPassOnAHostOnly) {
  SimulatedSystem simulation;
  System& a = simulation.host("a");
  System& b = simulation.host("b");
  EXPECT_NE(a.network.host_identity(), b.network.host_identity());
  const Status status = simulation.run([&] {
    auto listener = a.network.listen("unix:");
    EXPECT_FALSE(b.network.connect((*listener)->address()).ok());
    auto client = a.network.connect((*listener)->address());
    auto server = accept_one(a, **listener);
    auto poller = a.network.make_poller();
    ASSERT_TRUE((*poller)->add(server->handle()).ok());
    auto sleeper = a.network.make_poller();
    auto segment = a.memory.create(100);
    (*segment)->bytes()[99] = std::byte{42};
    const std::array<Handle, 2> handles = {(*segment)->handle(), (*sleeper)->wake_handle()};
    while (*(*client)->send_handles(as_bytes("take"), handles) == 0) a.threads.yield();
    EXPECT_EQ(receive_all(**poller, *server, 4).value(), "take");
    const std::vector<Handle> taken = server->take_handles();
    ASSERT_EQ(taken.size(), 2u);
    segment->reset();
    auto mapped = a.memory.map(taken[0], 100);
    ASSERT_TRUE(mapped.ok()) << mapped.status().message();
    EXPECT_EQ((*mapped)->bytes()[99], std::byte{42});

    a.network.wake(taken[1]);
    EXPECT_TRUE((*sleeper)->wait(Time::max()).empty());
    a.network.close(taken[1]);

    auto other = a.memory.create(100);
    const Handle handle = (*other)->handle();
    EXPECT_FALSE(b.memory.map(handle, 100).ok()) << "it is on another host";
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(simulation.open_handles(), 0u);
}

TEST(SimulatedSystemTest, APollerCanWatchAPollerAndForgetsClosedSockets) {
  SimulatedSystem simulation;
  System& system = simulation.host("a");
  const Status status = simulation.run([&] {
    auto inner = system.network.make_poller();
    auto outer = system.network.make_poller();
    ASSERT_TRUE((*outer)->add((*inner)->handle()).ok());
    (*inner)->wake();
    EXPECT_EQ((*outer)->wait(Time::max()), std::vector{(*inner)->handle()});
    EXPECT_TRUE((*inner)->wait(Time::max()).empty());

    auto listener = system.network.listen("unix:x");
    auto client = system.network.connect("unix:x");
    ASSERT_TRUE((*inner)->add((*listener)->handle()).ok());
    system.threads.sleep_until(system.clock.now() + milliseconds(1));  // news comes
    listener->reset();
    EXPECT_TRUE((*inner)->wait(system.clock.now()).empty());
    EXPECT_FALSE((*inner)->add(3).ok()) << "a real descriptor is nothing here";
  });
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(SimulatedSystemTest, AReactorRunsHere) {
  SimulatedSystem simulation;
  System& system = simulation.host("a");
  std::vector<int> order;
  const Status status = simulation.run([&] {
    Reactor reactor(system);
    ASSERT_TRUE(reactor.start("loop").ok());
    reactor.post([&] {
      const Time now = system.clock.now();
      reactor.at(now + seconds(2), [&] { order.push_back(3); });
      reactor.at(now + seconds(1), [&] { order.push_back(2); });
      order.push_back(1);
    });
    system.threads.sleep_until(system.clock.now() + seconds(3));
  });
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST(SimulatedSystemTest, ADeadlockNamesWhoWaitsForWhat) {
  auto simulation = std::make_unique<SimulatedSystem>();
  System& a = simulation->host("a");
  System& b = simulation->host("b");
  const Status status = simulation->run([&a, &b] {
    auto thread = a.threads.start("listener", [&] {
      auto listener = a.network.listen("10.0.0.1:80");
      (void)accept_one(a, **listener);
    });
    auto other = b.threads.start("poller", [&] { (void)(*b.network.make_poller())->wait(Time::max()); });
    thread.reset();
  });
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(status.message(),
            "simulation: deadlock: 'main' waits for the end of 'listener of a', 'listener of a' waits for news, "
            "'poller of b' waits for news");
  EXPECT_FALSE(simulation->run([] {}).ok()) << "it stays dead";
}

TEST(SimulatedSystemTest, WhatNeverEndsIsReportedToo) {
  SimulationOptions options;
  options.step_limit = 1000;
  SimulatedSystem spinning(options);
  System& system = spinning.host("a");
  const Status steps = spinning.run([&] {
    for (;;) system.threads.yield();
  });
  EXPECT_EQ(steps.message(), "simulation: no end after 1000 steps: 'main' runs");

  options = {};
  options.time_limit = seconds(10);
  SimulatedSystem beating(options);
  System& heart = beating.host("a");
  const Status time = beating.run([&] {
    for (;;) heart.threads.sleep_until(heart.clock.now() + seconds(1));
  });
  EXPECT_TRUE(has(time.message(), "simulation: no end after 10 s of its time: 'main' ")) << time.message();
}

}  // namespace
}  // namespace hocket
