// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/wait.h"

#include <gtest/gtest.h>

namespace hocket {
namespace {

TEST(Wait, LooksAroundEveryTimeItGetsTheCoreBack) {
  Wait wait(real_system(), true, Duration(0));
  while (wait.idle() == Wait::Advice::kAgain) {
  }
  for (int turn = 0; turn < 100; ++turn) EXPECT_EQ(wait.idle(), Wait::Advice::kLook) << turn;
}

class Hand final : public Clock {
 public:
  Time now() override { return now_; }
  void advance(Duration time) { now_ += time; }

 private:
  Time now_{};
};

// One look at a socket takes as long as many at memory: counted as those it span ten times as long as it should.
TEST(Wait, SpinsForATimeHoweverLongALookTakes) {
  Hand clock;
  System& real = real_system();
  System system{clock, real.threads, real.network, real.memory};
  constexpr Duration kSpin = std::chrono::milliseconds(1);
  constexpr Duration kLook = std::chrono::microseconds(2);
  Wait wait(system, false, kSpin);
  Duration spun{};
  for (bool before = false, spins = true; spins; spun += kLook) {
    const bool looks = wait.idle() == Wait::Advice::kLook;
    spins = !(looks && before);
    before = looks;
    clock.advance(kLook);
  }
  EXPECT_GE(spun, kSpin);
  EXPECT_LE(spun, 3 * kSpin);
}

// A core on which others run whenever we give way, for as long as the test says.
class Core final : public Threads {
 public:
  explicit Core(Hand& clock) : clock_(clock) {}

  std::unique_ptr<Thread> start(std::string, std::function<void()>) override { return nullptr; }
  void yield() override {
    clock_.advance(others_run);
    ++yields;
  }
  void sleep_until(Time) override {}
  const void* self() override { return this; }
  HostInfo host() override { return {}; }

  Duration others_run{};
  int yields = 0;

 private:
  Hand& clock_;
};

class OneCore : public testing::Test {
 protected:
  // As a call has it that waits so long; how often it gives way.
  int yields_in(Duration time, Duration spin = Duration(-1)) {
    Wait wait(system_, false, spin, &sharing_);
    core_.yields = 0;
    for (const Time end = clock_.now() + time; clock_.now() < end;) {
      wait.idle();
      clock_.advance(std::chrono::nanoseconds(40));
    }
    return core_.yields;
  }

  Hand clock_;
  Core core_{clock_};
  System system_{clock_, core_, real_system().network, real_system().memory};
  CoreSharing sharing_;
};

TEST_F(OneCore, IsOursWhereNobodyElseRuns) {
  EXPECT_EQ(yields_in(std::chrono::microseconds(90)), 0);
  EXPECT_EQ(yields_in(std::chrono::microseconds(300)), 2);
  EXPECT_FALSE(sharing_.is_shared);
}

// Two ranks there would keep it from each other for as long as both spin, at each message.
TEST_F(OneCore, IsSharedAtOnceWhenSomethingCameOfGivingWay) {
  core_.others_run = std::chrono::microseconds(2);
  EXPECT_EQ(yields_in(std::chrono::microseconds(113)), 1);
  EXPECT_EQ(yields_in(std::chrono::microseconds(1)), 1);
  EXPECT_TRUE(sharing_.is_shared);
  core_.others_run = {};
  EXPECT_EQ(yields_in(std::chrono::microseconds(90)), 1);
  EXPECT_FALSE(sharing_.is_shared);
}

// What runs beside us may be anything, and keep the core for its time slice.
TEST_F(OneCore, IsKeptFromOthersOfWhomNothingComes) {
  core_.others_run = std::chrono::microseconds(2);
  sharing_.is_shared = true;
  EXPECT_EQ(yields_in(std::chrono::microseconds(900)), 3);
  EXPECT_FALSE(sharing_.is_shared);
}

// Another program takes the whole time slice that it gets: that costs more than all waiting.
TEST_F(OneCore, IsKeptForAWhileFromWhoKeepsIt) {
  core_.others_run = std::chrono::milliseconds(4);
  EXPECT_EQ(yields_in(std::chrono::milliseconds(2)), 1);
  EXPECT_FALSE(sharing_.is_shared);
  for (int wait = 0; wait < 50; ++wait) EXPECT_EQ(yields_in(std::chrono::microseconds(500)), 0) << wait;
  clock_.advance(std::chrono::milliseconds(100));
  EXPECT_EQ(yields_in(std::chrono::microseconds(500)), 1);
}

TEST_F(OneCore, IsHeldForAsLongAsTheUserSays) {
  core_.others_run = std::chrono::microseconds(2);
  sharing_.is_shared = true;
  EXPECT_EQ(yields_in(std::chrono::microseconds(900), std::chrono::milliseconds(1)), 0);
}

TEST(Wait, SleepsInTheEndForTimesThatGrow) {
  Wait wait(real_system(), true, Duration(0));
  while (wait.idle() != Wait::Advice::kSleep) {
  }
  const Time now = real_system().clock.now();
  const Time first = wait.nap_end(now);
  EXPECT_GT(first, now);
  EXPECT_GT(wait.nap_end(now), first);
  wait.progressed();
  EXPECT_NE(wait.idle(), Wait::Advice::kSleep);
}

}  // namespace
}  // namespace hocket
