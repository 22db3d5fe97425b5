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
