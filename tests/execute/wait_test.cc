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
