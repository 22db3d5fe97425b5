// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Who falls silent is noticed, and time in which the watcher itself did not run is held against nobody. In virtual
// time, with a timeout of half a second.
#include <gtest/gtest.h>

#include <atomic>

#include "base/simulated_system.h"
#include "comm/links.h"
#include "comm/links_heart.h"

namespace hocket {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTimeout = milliseconds(500);

void sleep(System& system, Duration time) { system.threads.sleep_until(system.clock.now() + time); }

// Whoever sends the next bytes over it does not run for a while.
class StoppingSocket final : public Socket {
 public:
  StoppingSocket(System& system, std::unique_ptr<Socket> inner) : system_(system), inner_(std::move(inner)) {}

  void stop_for(Duration time) { stop_ = time; }

  Result<size_t> send(std::span<const std::span<const std::byte>> parts) override {
    sleep(system_, stop_.exchange({}));
    return inner_->send(parts);
  }
  Result<size_t> receive(std::span<std::byte> into) override { return inner_->receive(into); }
  Result<size_t> send_handles(std::span<const std::byte> bytes, std::span<const Handle> handles) override {
    return inner_->send_handles(bytes, handles);
  }
  std::vector<Handle> take_handles() override { return inner_->take_handles(); }
  Handle handle() const override { return inner_->handle(); }
  std::string peer_name() const override { return inner_->peer_name(); }

 private:
  System& system_;
  const std::unique_ptr<Socket> inner_;
  std::atomic<Duration> stop_{};
};

// One of two processes on two hosts, with a link to the other.
class Side {
 public:
  explicit Side(System& system) : system_(system), reactor_(system), heart_(system, reactor_, kTimeout) {}
  ~Side() { reactor_.stop(); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  void start(std::unique_ptr<Socket> socket) {
    auto stopping = std::make_unique<StoppingSocket>(system_, std::move(socket));
    socket_ = stopping.get();
    link_ = std::make_unique<Link>(Link::Context{system_, reactor_, heart_}, std::move(stopping), 1000);
    heart_.start();
    EXPECT_TRUE(link_->start([](auto, auto) {}, [this](auto, const auto&) { ended_ = system_.clock.now(); }).ok());
    EXPECT_TRUE(reactor_.start("service").ok());
  }
  // From now on, or from the middle of the next heartbeat on.
  void stop_for(Duration time) {
    reactor_.post([this, time] { sleep(system_, time); });
  }
  void stop_in_a_beat_for(Duration time) { socket_->stop_for(time); }
  // When the other was given up; Time() while it is not.
  Time ended() const { return ended_; }
  System& system() { return system_; }

 private:
  System& system_;
  Reactor reactor_;
  Heart heart_;
  std::unique_ptr<Link> link_;
  StoppingSocket* socket_ = nullptr;
  std::atomic<Time> ended_{};
};

// Calls `body` when both sides have been linked for a second.
void with_linked_sides(const std::function<void(SimulatedSystem&, Side&, Side&)>& body) {
  SimulatedSystem world;
  const Status ended = world.run([&] {
    Side here(world.host("here"));
    Side there(world.host("there"));
    auto listener = std::move(*there.system().network.listen("10.0.0.2:0"));
    here.start(std::move(*here.system().network.connect(listener->address())));
    std::unique_ptr<Socket> socket;
    while (socket == nullptr) {
      sleep(there.system(), milliseconds(1));
      socket = std::move(*listener->accept());
    }
    there.start(std::move(socket));
    sleep(here.system(), seconds(1));
    ASSERT_EQ(here.ended(), Time());
    body(world, here, there);
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
}

TEST(Heart, GivesUpWhoIsSilent) {
  with_linked_sides([](SimulatedSystem& world, Side& here, Side& there) {
    const Time cut = world.now();
    world.cut_off("there");
    sleep(here.system(), seconds(2));
    for (const Side* side : {&here, &there}) {
      EXPECT_GE(side->ended(), cut + kTimeout * 7 / 8);
      EXPECT_LE(side->ended(), cut + kTimeout * 9 / 8);
    }
  });
}

// Both starve, the other for a moment longer.
TEST(Heart, HoldsAgainstNobodyWhatItMissedInTheMiddleOfABeat) {
  with_linked_sides([](SimulatedSystem&, Side& here, Side& there) {
    here.stop_in_a_beat_for(milliseconds(600));
    there.stop_for(milliseconds(750));
    sleep(here.system(), seconds(3));
    EXPECT_EQ(here.ended(), Time());
    EXPECT_EQ(there.ended(), Time());
  });
}

TEST(Heart, HoldsAgainstNobodyWhatItMissedBetweenBeats) {
  with_linked_sides([](SimulatedSystem&, Side& here, Side& there) {
    here.stop_for(milliseconds(600));
    there.stop_for(milliseconds(750));
    sleep(here.system(), seconds(3));
    EXPECT_EQ(here.ended(), Time());
    EXPECT_EQ(there.ended(), Time());
  });
}

// Its core comes too late for each beat, so that it looks half as often as it should.
TEST(Heart, HoldsAgainstNobodyWhatItMissedInSmallPieces) {
  with_linked_sides([](SimulatedSystem&, Side& here, Side& there) {
    there.stop_for(milliseconds(700));
    for (int piece = 0; piece < 20; ++piece) {
      here.stop_for(milliseconds(30));  // a beat is due 31 ms after the one before
      sleep(here.system(), milliseconds(61));
    }
    EXPECT_EQ(here.ended(), Time());
    EXPECT_EQ(there.ended(), Time());
  });
}

// What came meanwhile lies in the socket, and is heard the moment it runs again.
TEST(Heart, ThatWasStoppedGivesNobodyMoreThanTheTimeout) {
  with_linked_sides([](SimulatedSystem& world, Side& here, Side&) {
    here.stop_for(seconds(5));
    sleep(here.system(), seconds(5) + milliseconds(1));
    const Time cut = world.now();
    world.cut_off("there");
    sleep(here.system(), seconds(8));
    EXPECT_NE(here.ended(), Time());
    EXPECT_LE(here.ended(), cut + kTimeout * 9 / 8);
  });
}

}  // namespace
}  // namespace hocket
