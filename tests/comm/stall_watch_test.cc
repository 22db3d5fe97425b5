// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// When what was sent counts as lost, in virtual time.
#include "comm/stall_watch.h"

#include <gtest/gtest.h>

namespace hocket {
namespace {

constexpr Duration kBeat = std::chrono::milliseconds(200);

class StallWatchTest : public testing::Test {
 protected:
  struct Ends {
    uint32_t ours = 5;
    uint64_t arrived = 0;
    uint32_t theirs = 6;
    bool rests = true;
  };

  // Of so many questions, all answered.
  Duration after(int beats, const Ends& ends, bool we_send = false) {
    Duration stalled{};
    for (int i = 0; i < beats; ++i) {
      watch_.wait(ends.ours, ends.arrived, "a call");
      stalled = watch_.hear(we_send, ends.theirs, ends.rests, now_ += kBeat);
    }
    return stalled;
  }

  StallWatch watch_;
  Time now_{std::chrono::seconds(100)};
};

TEST_F(StallWatchTest, CountsFromTheFirstAnswerOn) {
  EXPECT_EQ(after(1, {}), Duration());
  EXPECT_EQ(after(10, {}), 10 * kBeat);
}

TEST_F(StallWatchTest, NothingIsDueOfWhoHasSentNothing) {
  EXPECT_EQ(after(50, {.theirs = 5}), Duration());
  EXPECT_EQ(after(50, {.theirs = 4}), Duration());
}

TEST_F(StallWatchTest, CountsMayOverflow) { EXPECT_EQ(after(11, {.ours = UINT32_MAX, .theirs = 0}), 10 * kBeat); }

TEST_F(StallWatchTest, WhatArrivesBeginsAgain) {
  EXPECT_GT(after(10, {}), Duration());
  EXPECT_EQ(after(1, {.arrived = 1}), Duration());
  EXPECT_GT(after(10, {.arrived = 1}), Duration());
  EXPECT_EQ(after(1, {.ours = 6, .arrived = 1, .theirs = 7}), Duration());
}

TEST_F(StallWatchTest, WhoWorksMayHoldTheMessage) {
  EXPECT_GT(after(10, {}), Duration());
  EXPECT_EQ(after(1, {.rests = false}), Duration());
  EXPECT_EQ(after(1, {}), Duration());
}

// One of the two was stopped.
TEST_F(StallWatchTest, AGapBeginsAgain) {
  EXPECT_GT(after(10, {}), Duration());
  now_ += std::chrono::seconds(3);
  EXPECT_EQ(after(1, {}), Duration());
  EXPECT_EQ(after(5, {}), 5 * kBeat);
}

// 13 were sent. A pipe takes eight without any of them being read.
TEST_F(StallWatchTest, WhoSendsIsOwedRoomForEightMessages) {
  EXPECT_EQ(after(50, {.ours = 13, .theirs = 5}, true), Duration());
  EXPECT_EQ(after(11, {.ours = 13, .theirs = 6}, true), 10 * kBeat);
}

TEST_F(StallWatchTest, WhatIsDueIsHelpedOnce) {
  EXPECT_GT(after(10, {}), Duration());
  EXPECT_TRUE(watch_.may_renew());
  EXPECT_FALSE(watch_.may_renew());
  after(1, {.arrived = 1});
  EXPECT_TRUE(watch_.may_renew());
}

}  // namespace
}  // namespace hocket
