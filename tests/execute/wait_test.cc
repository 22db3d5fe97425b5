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

// A core on which others run, for as long as the test says.
class SharedCore final : public Threads {
 public:
  explicit SharedCore(Hand& clock) : clock_(clock) {}

  std::unique_ptr<Thread> start(std::string, std::function<void()>) override { return nullptr; }
  void yield() override {
    clock_.advance(others_run);
    ++yields;
  }
  void sleep_until(Time) override {}

  Duration others_run{};
  int yields = 0;

 private:
  Hand& clock_;
};

// Otherwise two ranks on one core keep it from each other for a millisecond at each message.
TEST(Wait, GivesWayAtOnceWhereOthersRanOnItsCore) {
  Hand clock;
  SharedCore core(clock);
  System& real = real_system();
  System system{clock, core, real.network, real.memory};
  Wait wait(system, false, Duration(-1));
  const auto looks_until_it_yields = [&] {
    wait.progressed();
    core.yields = 0;
    int looks = 0;
    for (; core.yields == 0; ++looks) {
      wait.idle();
      clock.advance(std::chrono::nanoseconds(40));
    }
    return looks;
  };
  EXPECT_GT(looks_until_it_yields(), 1000);
  EXPECT_GT(looks_until_it_yields(), 1000);
  core.others_run = std::chrono::microseconds(100);
  EXPECT_GT(looks_until_it_yields(), 1000);
  EXPECT_LE(looks_until_it_yields(), 2);
  core.others_run = {};
  EXPECT_LE(looks_until_it_yields(), 2);
  EXPECT_GT(looks_until_it_yields(), 1000);
}

// Ticks of a timer look like others now and then.
TEST(Wait, SleepsHoweverOftenOthersRan) {
  Hand clock;
  SharedCore core(clock);
  System& real = real_system();
  System system{clock, core, real.network, real.memory};
  Wait wait(system, false, std::chrono::microseconds(1));
  int yields = 0;
  while (wait.idle() != Wait::Advice::kSleep) {
    core.others_run = core.others_run > Duration(0) ? Duration(0) : Duration(std::chrono::microseconds(100));
    clock.advance(std::chrono::nanoseconds(40));
    ASSERT_LT(++yields, 3000);
  }
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
