// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// When a repeated call is done: all that it has sent has left the process, as its pipes know, or see when they look.
// What is not done then, the execution ends or fails.
#include "execute/fast_path.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "comm/binding.h"
#include "plan/builders.h"

namespace hocket::test {
namespace {

constexpr size_t kLong = 8 << 10;  // bytes of a message that takes shortcuts

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

  std::array<std::byte, kLong> memory{};
  int asked = 0;
  bool fails = false;          // as it finds out by a look ...
  bool fails_at_once = false;  // ... or as it sends

 private:
  const int looks_;
  int left_ = 0;
  bool has_failed_ = false;
};

// Has one message of a call, which it brings to where it is asked to, or keeps in memory of its own.
class Bringer final : public Receiver {
 public:
  Bringer(int32_t value, bool at_once, size_t bytes = sizeof(int32_t)) : values_(bytes / sizeof(int32_t), value) {
    into_from = bytes;
    lands_at_once = at_once;
  }
  const Message* peek() override { return look(values_.data()); }
  const Message* receive_into(std::span<std::byte> into) override {
    ++brought;
    std::memcpy(into.data(), values_.data(), into.size());
    return look(into.data());
  }
  void release() override { ++released; }

  int brought = 0;
  int released = 0;

 private:
  const Message* look(const void* data) {
    message_ = {static_cast<const std::byte*>(data), values_.size() * sizeof(int32_t),
                Envelope{1, messages.get()}.digest()};
    return &message_;
  }

  std::vector<int32_t> values_;
  Message message_{};
};

class OnePipe final : public Pipes {
 public:
  explicit OnePipe(Sender& sender) { sender_.pipe = &sender; }
  explicit OnePipe(Receiver& receiver) { receiver_.pipe = &receiver; }
  SendEnd& to(Rank /*peer*/, int /*lane*/) override { return sender_; }
  ReceiveEnd& from(Rank /*peer*/, int /*lane*/) override { return receiver_; }

 private:
  SendEnd sender_;
  ReceiveEnd receiver_;
};

// A part of a broadcast between two ranks: the root's is a message that it sends.
class Part {
 public:
  template <typename Pipe>
  Part(Pipe& pipe, Rank rank, Lending lending, size_t bytes)
      : pipes_(pipe), values_(bytes / sizeof(int32_t), rank == 0 ? 7 : 0) {
    BuildOptions options;
    options.ranks = 2;
    options.rank = rank;
    options.in_place = true;
    plan_ = find_builder(Collective::kBroadcast, "binomial")->build(options);
    request_.facts.collective = Collective::kBroadcast;
    request_.facts.type = DataType::kInt32;
    request_.facts.count = values_.size();
    request_.send = request_.recv = values_.data();
    call_.plan = &plan_;
    bind_arithmetic(request_, 2, call_);
    bind_layouts(request_, call_);
    call_.lending = lending;
    call_.window = call_.slice_bytes = kLong;
    path_ = FastPath(call_, pipes_);
  }

  bool broadcast(const Wait* wait) { return path_.run(values_.data(), values_.data(), 1, wait); }
  // What becomes of the call behind the steps that the fast path has made.
  Execution::Progress go_on() {
    Execution execution(pipes_);
    execution.start(call_, path_.reached());
    return execution.advance();
  }
  int32_t value() const { return values_.back(); }

 private:
  OnePipe pipes_;
  Plan plan_;
  Request request_;
  Call call_;
  std::vector<int32_t> values_;
  FastPath path_;
};

class Root : public Part {
 public:
  explicit Root(Sender& sender, Lending lending = Lending::kNever, size_t bytes = sizeof(int32_t))
      : Part(sender, 0, lending, bytes) {}
};

class Leaf : public Part {
 public:
  explicit Leaf(Receiver& receiver, size_t bytes = sizeof(int32_t)) : Part(receiver, 1, Lending::kNever, bytes) {}
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

// Where the pipe brings it, nothing is left to copy.
TEST(FastPath, TakesWhatLandsAtOnce) {
  for (const size_t bytes : {sizeof(int32_t), kLong}) {
    Bringer receiver(9, true, bytes);
    Leaf leaf(receiver, bytes);
    EXPECT_TRUE(leaf.broadcast(&kWait));
    EXPECT_EQ(leaf.value(), 9);
    EXPECT_EQ(receiver.brought, 1);
    EXPECT_EQ(receiver.released, 1);
  }
}

TEST(FastPath, TakesNothingIntoItsMemoryThatWouldNotLandAtOnce) {
  Bringer soon(9, false), late(9, false, kLong);
  EXPECT_TRUE(Leaf(soon).broadcast(&kWait));
  EXPECT_FALSE(Leaf(late, kLong).broadcast(&kWait)) << "the execution lets it land";
  EXPECT_EQ(soon.brought + late.brought, 0);
  EXPECT_EQ(soon.released, 1);
  EXPECT_EQ(late.released, 0);
}

// A call that lends nothing copies, whatever the pipe would.
TEST(FastPath, LeavesWhatIsLentToTheExecution) {
  for (const Lending lending : {Lending::kAlways, Lending::kWithoutCopies, Lending::kNever}) {
    SlowSender sender(0);
    sender.lent_from = kLong;
    EXPECT_EQ(Root(sender, lending, kLong).broadcast(&kWait), lending != Lending::kAlways);
    EXPECT_EQ(sender.messages.get(), lending == Lending::kAlways ? 0u : 1u);
  }
  SlowSender longer(0);
  longer.lent_from = kLong + 1;
  EXPECT_TRUE(Root(longer, Lending::kAlways, kLong).broadcast(&kWait));
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
