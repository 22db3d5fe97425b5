// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// When a repeated call is done: all that it has sent has left the process, as its pipes know, or see when they look.
// What is not done then, the execution ends or fails.
#include "execute/fast_path.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "comm/binding.h"
#include "plan/builders.h"

namespace hocket::test {
namespace {

// Of a card that tells in the end, after so many looks, that the peer has everything.
class SlowSender final : public Sender {
 public:
  explicit SlowSender(int looks) : looks_(looks) {}

  std::byte* reserve(size_t bytes) override { return bytes <= sizeof(memory) ? memory.data() : nullptr; }
  void commit(size_t /*bytes*/, Envelope /*envelope*/) override {
    left_ = looks_;
    has_failed_ = fails_at_once;
  }
  Status progress() override {
    ++asked;
    if (left_ > 0) --left_;
    has_failed_ |= fails;
    return has_failed_ ? Status(Code::kRemote, "gone") : Status();
  }
  bool flushed() override { return left_ == 0 && !has_failed_; }

  std::array<std::byte, 64> memory{};
  int asked = 0;
  bool fails = false;          // as it finds out by a look ...
  bool fails_at_once = false;  // ... or as it sends

 private:
  const int looks_;
  int left_ = 0;
  bool has_failed_ = false;
};

class OnePipe final : public Pipes {
 public:
  explicit OnePipe(Sender& sender) { sender_.pipe = &sender; }
  SendEnd& to(Rank /*peer*/, int /*lane*/) override { return sender_; }
  ReceiveEnd& from(Rank /*peer*/, int /*lane*/) override { return receiver_; }

 private:
  SendEnd sender_;
  ReceiveEnd receiver_;
};

// The root's part of a broadcast to one other rank: a message that it sends.
class Root {
 public:
  explicit Root(Sender& sender) : pipes_(sender) {
    BuildOptions options;
    options.ranks = 2;
    options.in_place = true;
    plan_ = find_builder(Collective::kBroadcast, "binomial")->build(options);
    request_.facts.collective = Collective::kBroadcast;
    request_.facts.type = DataType::kInt32;
    request_.facts.count = 1;
    request_.send = request_.recv = &value_;
    call_.plan = &plan_;
    bind_arithmetic(request_, 2, call_);
    bind_layouts(request_, call_);
    call_.window = call_.slice_bytes = 64;
    path_ = FastPath(call_, pipes_);
  }

  bool broadcast(const Wait* wait) { return path_.run(&value_, &value_, 1, wait); }
  // What becomes of the call behind the steps that the fast path has made.
  Execution::Progress go_on() {
    Execution execution(pipes_);
    execution.start(call_, path_.reached());
    return execution.advance();
  }

 private:
  OnePipe pipes_;
  Plan plan_;
  Request request_;
  Call call_;
  int32_t value_ = 7;
  FastPath path_;
};

const Wait kWait(real_system(), false, std::chrono::milliseconds(1));

void expect_sent(const SlowSender& sender) {
  int32_t sent = 0;
  std::memcpy(&sent, sender.memory.data(), sizeof(sent));
  EXPECT_EQ(sent, 7);
}

TEST(FastPath, AsksNoPipeWhatItKnows) {
  SlowSender sender(0);
  EXPECT_TRUE(Root(sender).broadcast(&kWait));
  EXPECT_EQ(sender.asked, 0);
  expect_sent(sender);
}

TEST(FastPath, EndsWhenWhatItHasSentIsSeenToHaveLeft) {
  SlowSender sender(20);
  Root root(sender);
  for (int call = 1; call <= 3; ++call) {
    EXPECT_TRUE(root.broadcast(&kWait));
    EXPECT_EQ(sender.asked, call * 20);
  }
  expect_sent(sender);
}

TEST(FastPath, LooksOnceWhereNothingIsWaitedFor) {
  SlowSender soon(1), late(2);
  EXPECT_TRUE(Root(soon).broadcast(nullptr));
  EXPECT_FALSE(Root(late).broadcast(nullptr));
  EXPECT_EQ(late.asked, 1);
}

// It goes on behind the last step: nothing is sent twice.
TEST(FastPath, LeavesWhatTakesLongToTheExecution) {
  SlowSender sender(1 << 30);
  Root root(sender);
  EXPECT_FALSE(root.broadcast(&kWait));
  sender.memory = {};
  EXPECT_EQ(root.go_on(), Execution::Progress::kIdle);
  EXPECT_EQ(sender.memory, decltype(sender.memory){});
}

TEST(FastPath, LeavesAPipeThatFailsToTheExecution) {
  SlowSender sender(100);
  sender.fails = true;
  Root root(sender);
  EXPECT_FALSE(root.broadcast(&kWait));
  EXPECT_EQ(sender.asked, 1);
  EXPECT_EQ(root.go_on(), Execution::Progress::kFailed);
}

TEST(FastPath, LeavesAPipeThatFailsAsItSendsToTheExecution) {
  SlowSender sender(0);
  sender.fails_at_once = true;
  Root root(sender);
  EXPECT_FALSE(root.broadcast(&kWait));
  EXPECT_EQ(root.go_on(), Execution::Progress::kFailed);
}

}  // namespace
}  // namespace hocket::test
