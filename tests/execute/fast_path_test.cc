// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// When a repeated call is done: all that it has sent has left the process, as its pipes know, or see when they look.
// What is not done then, the execution ends or fails.
#include "execute/fast_path.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "comm/binding.h"
#include "plan/builders.h"
#include "plan/lending.h"

namespace hocket::test {
namespace {

constexpr size_t kLong = 8 << 10;          // bytes of a message that takes shortcuts, and of a slice
constexpr size_t kPass = 4 * kLong;        // of a chunk
constexpr size_t kMost = 64 * kLong;       // of a call that is bound
constexpr size_t kCaches = kMost + kLong;  // that a call does not fill, which is sent where it is received

// Of a card that tells in the end, after so many looks, that the peer has everything.
class SlowSender final : public Sender {
 public:
  explicit SlowSender(int looks) : looks_(looks) {}

  std::byte* reserve(size_t bytes) override {
    const bool has_room = looks_for_room == 0 || --looks_for_room == 0;
    if (messages.get() >= messages_with_room) return nullptr;
    return has_room && bytes <= sizeof(memory) ? memory.data() : nullptr;
  }
  void commit(size_t bytes, Envelope /*envelope*/) override {
    sent.insert(sent.end(), memory.begin(), memory.begin() + static_cast<ptrdiff_t>(bytes));
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
  std::vector<std::byte> sent;
  int asked = 0;
  int looks_for_room = 0;                    // until there is some ...
  uint32_t messages_with_room = UINT32_MAX;  // ... for no more than these
  bool fails = false;                        // as it finds out by a look ...
  bool fails_at_once = false;                // ... or as it sends

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

// Has the slices of a call one after the other, as far as they have come.
class Feeder final : public Receiver {
 public:
  explicit Feeder(std::vector<int32_t> values) : values_(std::move(values)) {}
  const Message* peek() override {
    if (messages.get() >= come) return nullptr;
    const size_t at = messages.get() * kLong;
    message_ = {reinterpret_cast<const std::byte*>(values_.data()) + at,
                std::min(kLong, values_.size() * sizeof(int32_t) - at), Envelope{1, messages.get()}.digest()};
    return &message_;
  }
  void release() override {}

  uint32_t come = UINT32_MAX;

 private:
  const std::vector<int32_t> values_;
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
  Part(Pipe& pipe, Rank rank, Lending lending, size_t bytes, size_t cache_bytes = kCaches)
      : pipes_(pipe), values_(bytes / sizeof(int32_t)) {
    if (rank == 0) std::iota(values_.begin(), values_.end(), 7);
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
    mark_what_stays(plan_, true);
    call_.lending = lending;
    call_.window = kPass / sizeof(int32_t);
    call_.slice_bytes = kLong;
    call_.cache_bytes = cache_bytes;
    call_.operation = 1;
    path_ = FastPath(call_, pipes_);
  }

  bool broadcast(const Wait* wait) { return path_.run(values_.data(), values_.data(), 1, wait); }
  // What becomes of the call behind the slices that the fast path has made.
  Execution::Progress go_on() {
    Execution execution(pipes_);
    execution.start(call_, path_.reached());
    return execution.advance();
  }
  int32_t value() const { return values_.back(); }
  const std::vector<int32_t>& values() const { return values_; }
  bool is_bound() const { return path_.bound(); }

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
  explicit Root(Sender& sender, Lending lending = Lending::kNever, size_t bytes = sizeof(int32_t),
                size_t cache_bytes = kCaches)
      : Part(sender, 0, lending, bytes, cache_bytes) {}
};

class Leaf : public Part {
 public:
  explicit Leaf(Receiver& receiver, size_t bytes = sizeof(int32_t)) : Part(receiver, 1, Lending::kNever, bytes) {}
};

const Wait kWait(real_system(), false, std::chrono::milliseconds(1));

// All that the root has, once for each call.
void expect_all_sent(const SlowSender& sender, const Part& root, size_t calls = 1) {
  const size_t bytes = root.values().size() * sizeof(int32_t);
  ASSERT_EQ(sender.sent.size(), calls * bytes);
  for (size_t call = 0; call < calls; ++call) {
    EXPECT_EQ(std::memcmp(sender.sent.data() + call * bytes, root.values().data(), bytes), 0) << call;
  }
}

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

TEST(FastPath, MakesAllSlicesOfACallThatIsCut) {
  SlowSender sender(1);
  Root root(sender, Lending::kNever, kMost - kLong + sizeof(int32_t));
  for (uint32_t call = 1; call <= 2; ++call) {
    EXPECT_TRUE(root.broadcast(&kWait));
    EXPECT_EQ(sender.messages.get(), call * 64);
  }
  expect_all_sent(sender, root, 2);
}

TEST(FastPath, LeavesWhatHasManySlicesOrFillsCachesToTheExecution) {
  SlowSender sender(0);
  EXPECT_FALSE(Root(sender, Lending::kNever, kMost + sizeof(int32_t)).broadcast(&kWait));
  EXPECT_FALSE(Root(sender, Lending::kNever, kMost, kMost).broadcast(&kWait));
  EXPECT_EQ(sender.messages.get(), 0U);
  EXPECT_TRUE(Root(sender, Lending::kNever, kMost).broadcast(&kWait));
}

TEST(FastPath, WaitsForRoomALittle) {
  SlowSender soon(0), late(0);
  soon.looks_for_room = 20;
  late.looks_for_room = 2;
  EXPECT_TRUE(Root(soon).broadcast(&kWait));
  EXPECT_FALSE(Root(late).broadcast(nullptr));
}

// The execution goes on where there was no room: within a step, in whichever pass.
TEST(FastPath, LeavesTheRestOfACallThatIsCutToTheExecution) {
  for (uint32_t made = 1; made < 10; ++made) {
    SlowSender sender(0);
    Root root(sender, Lending::kNever, 10 * kLong);
    sender.messages_with_room = made;
    EXPECT_FALSE(root.broadcast(&kWait));
    EXPECT_EQ(sender.messages.get(), made);
    sender.messages_with_room = 10;
    EXPECT_EQ(root.go_on(), Execution::Progress::kDone);
    EXPECT_EQ(sender.messages.get(), 10U);
    expect_all_sent(sender, root);
  }
}

TEST(FastPath, TakesAllSlicesOfACallThatIsCutOrLeavesTheRest) {
  std::vector<int32_t> values(10 * kLong / sizeof(int32_t) - 1);
  std::iota(values.begin(), values.end(), 1);
  for (uint32_t come = 0; come <= 10; ++come) {
    Feeder receiver(values);
    receiver.come = come;
    Leaf leaf(receiver, values.size() * sizeof(int32_t));
    EXPECT_EQ(leaf.broadcast(&kWait), come == 10);
    receiver.come = 10;
    if (come < 10) {
      EXPECT_EQ(leaf.go_on(), Execution::Progress::kDone);
    }
    EXPECT_EQ(leaf.values(), values) << come;
  }
}

TEST(FastPath, IsNotBoundWhereSlicesLeaveFromWhereTheyLie) {
  SlowSender lies(0), lends(0), copies(0);
  lies.stable_from = lends.lent_from = kLong;
  copies.stable_from = copies.lent_from = kLong + 1;
  EXPECT_FALSE(Root(lies, Lending::kNever, 2 * kLong).is_bound());
  EXPECT_FALSE(Root(lends, Lending::kAlways, 2 * kLong).is_bound());
  EXPECT_TRUE(Root(lends, Lending::kNever, 2 * kLong).is_bound());
  EXPECT_TRUE(Root(copies, Lending::kAlways, 2 * kLong).is_bound());
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
