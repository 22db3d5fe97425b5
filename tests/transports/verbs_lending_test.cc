// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Messages that a verbs pipe leaves in their sender's memory: the receiver's device reads them there, or the socket
// brings them, whatever breaks. And memory that lasts, without which nothing is lent. The devices are not there
// (fake_verbs.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "transports/lasting_memory.h"
#include "transports/verbs/ring_memory.h"
#include "verbs_pipes.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;
using Bytes = LastingMemory::Bytes;

// ---- Memory that lasts

class Listener final : public LastingMemory::User {
 public:
  explicit Listener(LastingMemory& memory) : memory_(memory) { memory_.join(this); }
  ~Listener() override { memory_.leave(this); }
  void forget(Bytes range) override { forgotten.push_back(range.size()); }
  void renew(Bytes range) override { renewed.push_back(range.size()); }
  std::vector<size_t> forgotten, renewed;

 private:
  LastingMemory& memory_;
};

TEST(Lasting, MemoryIsFoundBySomeOfItUntilItEnds) {
  LastingMemory memory;
  const std::vector<std::byte> bytes(100);
  size_t found = 0;
  const auto find = [&](Bytes part) {
    found = 0;
    return memory.with(part, [&](Bytes range, const BeyondHost*) { found = range.size(); });
  };
  EXPECT_FALSE(find(bytes));
  const LastingMemory::Reason reason = memory.begin(Bytes(bytes).subspan(10, 80));
  EXPECT_TRUE(find(Bytes(bytes).subspan(10, 80)));
  EXPECT_TRUE(find(Bytes(bytes).subspan(40, 1)));
  EXPECT_EQ(found, 80u);
  EXPECT_FALSE(find(Bytes(bytes).subspan(9, 2)));
  EXPECT_FALSE(find(Bytes(bytes).subspan(89, 2)));
  memory.end(reason);
  EXPECT_FALSE(find(Bytes(bytes).subspan(40, 1)));
}

TEST(Lasting, MemoryEndsWithItsLastReasonAndThenIsForgotten) {
  LastingMemory memory;
  Listener listener(memory);
  const std::vector<std::byte> bytes(100);
  const LastingMemory::Reason first = memory.begin(bytes), second = memory.begin(bytes);
  memory.end(first);
  memory.end(first);
  EXPECT_TRUE(listener.forgotten.empty()) << "one is left";
  EXPECT_TRUE(memory.with(bytes, [](Bytes, const BeyondHost*) {}));
  memory.end(second);
  EXPECT_THAT(listener.forgotten, testing::ElementsAre(100));
  memory.end(second);
  EXPECT_THAT(listener.forgotten, testing::ElementsAre(100)) << "it had ended";
}

// As it is taken anew at the same address.
TEST(Lasting, MemoryThatIsFreedEndsForAllReasonsAndThoseOfTheNextAreOthers) {
  LastingMemory memory;
  Listener listener(memory);
  const std::vector<std::byte> bytes(100);
  memory.begin(bytes);
  const LastingMemory::Reason part = memory.begin(Bytes(bytes).first(50));
  memory.begin(Bytes(bytes).last(10));
  memory.end_all(Bytes(bytes).first(80));
  EXPECT_THAT(listener.forgotten, testing::ElementsAre(100, 50));
  EXPECT_FALSE(memory.with(Bytes(bytes).first(1), [](Bytes, const BeyondHost*) {}));
  memory.begin(Bytes(bytes).first(50));
  memory.end(part);
  EXPECT_TRUE(memory.with(Bytes(bytes).first(1), [](Bytes, const BeyondHost*) {}));
}

TEST(Lasting, MemoryWhosePagesAreReplacedIsRenewedAndLasts) {
  LastingMemory memory;
  Listener listener(memory);
  const std::vector<std::byte> bytes(100);
  memory.begin(bytes);
  memory.begin(Bytes(bytes).first(50));
  memory.begin(Bytes(bytes).last(10));
  memory.replace(Bytes(bytes).subspan(40, 50));
  EXPECT_THAT(listener.renewed, testing::ElementsAre(100, 50));
  EXPECT_TRUE(listener.forgotten.empty());
  EXPECT_TRUE(memory.with(bytes, [](Bytes, const BeyondHost*) {}));
}

// ---- Messages from such memory

class Lending : public Verbs {
 protected:
  Lending() : source_(pattern(kMessage, kMaxMessage).begin(), pattern(kMessage, kMaxMessage).end()) {
    set_two_fake_ports();
  }

  static constexpr uint64_t kMessage = 1;  // of what source_ holds

  Ticket lend(PipePair& pair) {
    const Ticket ticket = pair.sender->lend(source_, envelope(kMessage));
    EXPECT_NE(ticket, 0u);
    EXPECT_NE(ticket, kCopied);
    return ticket;
  }
  // Into target_, or where the pipe has it; false: it did not come, or not right.
  bool fetch(PipePair& pair) {
    const Message* got = nullptr;
    wait_until(real_system(), [&] {
      (void)pair.sender->progress();
      got = pair.receiver->receive_into(target_);
      return got != nullptr || !pair.receiver->progress().ok();
    });
    const bool right = got != nullptr && got->digest == envelope(kMessage).digest() &&
                       std::ranges::equal(std::span(got->data, got->size), source_);
    landed_ = got != nullptr && got->data == target_.data();
    pair.receiver->release();
    return right;
  }
  // The frame of what was lent is in the receiver's ring, and nobody has looked at it.
  static void arrive(PipePair& pair) {
    ASSERT_TRUE(wait_until(real_system(), [&] { return pair.sender->progress().ok() && pair.sender->flushed(); }));
    ASSERT_TRUE(pair.receiver->progress().ok());
  }
  bool ends(PipePair& pair, Ticket ticket) {
    return wait_until(real_system(), [&] { return pair.sender->done(ticket); }) && pair.sender->progress().ok();
  }

  // Is lent, fetched, and the sender is free.
  bool passes(PipePair& pair) {
    const Ticket ticket = lend(pair);
    return fetch(pair) && ends(pair, ticket);
  }

  bool landed_ = false;  // what was fetched lies in target_
  std::vector<std::byte> source_;
  std::vector<std::byte> target_ = std::vector<std::byte>(kMaxMessage);
};

TEST_F(Lending, IsReadFromPlaceToPlaceAndThenTheSenderIsFree) {
  const LastingMemory::Hold source(source_);
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  const Ticket ticket = lend(made);
  arrive(made);
  EXPECT_FALSE(made.sender->done(ticket)) << "nobody has looked";
  EXPECT_TRUE(fetch(made));
  EXPECT_TRUE(landed_);
  EXPECT_TRUE(ends(made, ticket));
  EXPECT_EQ(fake_reads(), 1u);
  EXPECT_EQ(fake_registered_bytes(), 2 * RingMemory::kLong + 2 * kMaxMessage);
}

TEST_F(Lending, ManyAreUnderWayAndComeInOrderBesideOthers) {
  const LastingMemory::Hold source(source_);
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  for (int round = 0; round < 100; ++round) {
    std::vector<Ticket> tickets;
    for (size_t i = 0; i < kPipeDepth / 2; ++i) {
      tickets.push_back(lend(made));
      ASSERT_TRUE(send(*made.sender, i, kShort));
    }
    for (size_t i = 0; i < kPipeDepth / 2; ++i) {
      ASSERT_TRUE(fetch(made)) << "round " << round;
      ASSERT_TRUE(receive(made, i, kShort)) << "round " << round;
    }
    for (const Ticket ticket : tickets) ASSERT_TRUE(ends(made, ticket));
  }
  EXPECT_GT(fake_reads(), 300u) << "all but those whose frame would not lie in one piece";
}

// A place takes two lines of the ring, of which one may be left at its end.
TEST_F(Lending, GoesOnWhereThePlaceDoesNotFitBeforeTheRingsEnd) {
  const LastingMemory::Hold source(source_);
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  for (const size_t lines : {size_t{2}, size_t{3}}) {
    const size_t bytes = (lines - 1) * 64;
    ASSERT_TRUE(send(*made.sender, 0, bytes));
    ASSERT_TRUE(receive(made, 0, bytes));
    for (int round = 0; round < 2'500; ++round) ASSERT_TRUE(passes(made)) << lines << " lines, round " << round;
  }
  EXPECT_EQ(fake_reads(), 5'000u);
}

TEST_F(Lending, GoesToABufferWhereTheTargetDoesNotLast) {
  const LastingMemory::Hold source(source_);
  PipePair made = open_pair();
  const Ticket first = lend(made);
  EXPECT_TRUE(receive(made, kMessage, kMaxMessage)) << "peeked";
  EXPECT_TRUE(ends(made, first));
  EXPECT_EQ(fake_reads(), 1u);
  const Ticket second = lend(made);
  EXPECT_TRUE(fetch(made));
  EXPECT_FALSE(landed_);
  EXPECT_TRUE(ends(made, second));
  EXPECT_EQ(fake_reads(), 2u);
}

TEST_F(Lending, IsNotDoneFromMemoryThatMayEnd) {
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  EXPECT_TRUE(passes(made));
  EXPECT_EQ(fake_reads(), 0u);
}

TEST_F(Lending, EndsWithTheMemoryAndBeginsAnewWithTheNext) {
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  for (int round = 1; round <= 3; ++round) {
    const LastingMemory::Hold source(source_);
    ASSERT_TRUE(passes(made));
    EXPECT_EQ(fake_reads(), static_cast<size_t>(round));
  }
  EXPECT_EQ(fake_registered_bytes(), 2 * RingMemory::kLong + kMaxMessage) << "the source has ended";
}

TEST_F(Lending, MemoryWhosePagesAreReplacedIsRegisteredAnew) {
  const LastingMemory::Hold source(source_);
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  ASSERT_TRUE(passes(made));
  const size_t before = fake_registered_bytes();
  LastingMemory::of_process().replace(LastingMemory::Bytes(source_).first(1));
  EXPECT_TRUE(passes(made));
  EXPECT_EQ(fake_reads(), 2u);
  EXPECT_EQ(fake_registered_bytes(), before + kMaxMessage) << "what is under way may go on with the old pages";
}

TEST_F(Lending, LeavesHalfOfWhatMayBeLockedToOthers) {
  const LockLimit limit(2 * kMaxMessage - 1);
  if (!limit.is_set()) GTEST_SKIP() << "ulimit -l is " << limit.highest();
  const LastingMemory::Hold source(source_);
  PipePair made = open_pair();
  EXPECT_TRUE(passes(made));
  EXPECT_EQ(fake_registered_bytes(), 2 * RingMemory::kLong) << "the rings";
}

// ---- What breaks

TEST_F(Lending, ADeviceThatDoesNotRegisterTheSourceLeavesCopies) {
  const LastingMemory::Hold source(source_);
  PipePair made = open_pair();
  fail_fake_call(FakeCall::kRegister, 0, ENOMEM);
  EXPECT_TRUE(passes(made));
  EXPECT_EQ(fake_reads(), 0u);
}

TEST_F(Lending, ADeviceThatDoesNotRegisterTheTargetLeavesTheBuffer) {
  const LastingMemory::Hold source(source_);
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  const Ticket ticket = lend(made);
  fail_fake_call(FakeCall::kRegister, 0, ENOMEM);
  EXPECT_TRUE(fetch(made));
  EXPECT_FALSE(landed_);
  EXPECT_TRUE(ends(made, ticket));
  EXPECT_EQ(fake_reads(), 1u);
}

TEST_F(Lending, ADeviceThatDoesNotRegisterTheBufferLeavesTheSocket) {
  const LastingMemory::Hold source(source_);
  PipePair made = open_pair();
  const Ticket ticket = lend(made);
  fail_fake_call(FakeCall::kRegister, 0, ENOMEM);
  EXPECT_TRUE(fetch(made));
  EXPECT_TRUE(ends(made, ticket));
  EXPECT_EQ(fake_reads(), 0u);
  EXPECT_EQ(fake_connected_pairs(1), 2u) << "the port is all right";
  const Ticket next = lend(made);
  arrive(made);
  EXPECT_TRUE(made.sender->done(next)) << "what follows is copied, and goes by the port";
  EXPECT_TRUE(fetch(made));
  break_fake_pairs(1);
  EXPECT_TRUE(wait_until(real_system(), [&] {
    return made.sender->progress().ok() && made.receiver->progress().ok() && fake_connected_pairs(2) == 2;
  }));
  EXPECT_TRUE(passes(made));
  EXPECT_EQ(fake_reads(), 1u) << "by another port it is tried again";
}

TEST_F(Lending, WhatADeviceCannotReadComesOverTheSocket) {
  const LastingMemory::Hold source(source_);
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  const Ticket ticket = lend(made);
  arrive(made);
  set_fake_port_up(1, false);
  EXPECT_TRUE(fetch(made));
  EXPECT_TRUE(ends(made, ticket));
  EXPECT_EQ(fake_reads(), 0u);
  EXPECT_TRUE(passes(made)) << "by the other port, with other keys";
  EXPECT_EQ(fake_reads(), 1u);
}

TEST_F(Lending, WhatCameByAnEarlierPortHasKeysNoMore) {
  const LastingMemory::Hold source(source_);
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  const Ticket ticket = lend(made);
  arrive(made);
  break_fake_pairs(1);
  EXPECT_TRUE(wait_until(real_system(), [&] {
    return made.sender->progress().ok() && made.receiver->progress().ok() && fake_connected_pairs(2) == 2;
  }));
  EXPECT_TRUE(fetch(made));
  EXPECT_TRUE(ends(made, ticket));
  EXPECT_EQ(fake_reads(), 0u);
  EXPECT_EQ(fake_connected_pairs(2), 2u) << "nobody tried them there";
}

TEST_F(Lending, IsNotDoneOverTheSocket) {
  const LastingMemory::Hold source(source_);
  PipePair made = open_pair();
  set_fake_port_up(1, false);
  set_fake_port_up(2, false);
  EXPECT_TRUE(passes(made));
}

TEST_F(Lending, AReceiverThatLeavesWithoutReadingIsAFailure) {
  const LastingMemory::Hold source(source_);
  PipePair made = open_pair();
  const Ticket ticket = lend(made);
  arrive(made);
  made.receiver.reset();
  EXPECT_EQ(failure(*made.sender).code(), Code::kRemote);
  EXPECT_TRUE(made.sender->done(ticket));
}

TEST_F(Lending, AReceiverThatLeavesAfterReadingIsNone) {
  const LastingMemory::Hold source(source_);
  PipePair made = open_pair();
  const Ticket ticket = lend(made);
  EXPECT_TRUE(fetch(made));
  made.receiver.reset();
  EXPECT_TRUE(ends(made, ticket)) << made.sender->progress().message();
}

TEST_F(Lending, ASenderThatIsGoneIsAFailureAtOnce) {
  const LastingMemory::Hold source(source_);
  PipePair made = open_pair();
  (void)lend(made);
  arrive(made);
  made.sender.reset();
  const Message* got = nullptr;
  EXPECT_TRUE(wait_until(real_system(), [&] {
    got = made.receiver->peek();
    return got != nullptr || !made.receiver->progress().ok();
  }));
  EXPECT_EQ(got, nullptr);
  EXPECT_EQ(made.receiver->progress().code(), Code::kRemote);
}

// ---- Callers that take their memory back

TEST_F(Lending, WhatTheSenderTakesBackIsReadNoMore) {
  const LastingMemory::Hold source(source_);
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  const Ticket ticket = lend(made);
  arrive(made);
  made.sender->withdraw();
  EXPECT_TRUE(made.sender->done(ticket));
  EXPECT_THAT(made.sender->progress().message(), HasSubstr("taken back"));
  std::ranges::fill(source_, std::byte{0xEE});
  testing::internal::CaptureStderr();
  EXPECT_EQ(made.receiver->receive_into(target_), nullptr);
  EXPECT_EQ(fake_reads(), 0u);
  EXPECT_THAT(failure(*made.receiver).message(), HasSubstr("has taken back the memory"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::IsEmpty()) << "no port is to blame";
}

TEST_F(Lending, NothingIsWrittenWhereTheReceiverTookItsMemoryBack) {
  const LastingMemory::Hold source(source_);
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  (void)lend(made);
  arrive(made);
  hold_fake_acknowledgements(true);  // the read is under way
  EXPECT_EQ(made.receiver->receive_into(target_), nullptr);
  ASSERT_EQ(fake_connected_pairs(1), 2u);
  made.receiver->withdraw();
  EXPECT_EQ(fake_connected_pairs(1), 1u) << "its queue pair is no more, so no device writes";
  EXPECT_THAT(made.receiver->progress().message(), HasSubstr("taken back before it came"));
  hold_fake_acknowledgements(false);
  testing::internal::CaptureStderr();
  EXPECT_THAT(failure(*made.sender).message(), HasSubstr("has taken back the memory"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::IsEmpty()) << "no port is to blame";
}

TEST_F(Lending, NothingIsWrittenOverTheSocketEither) {
  const LastingMemory::Hold source(source_);
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  (void)lend(made);
  arrive(made);
  set_fake_port_up(1, false);
  EXPECT_EQ(made.receiver->receive_into(target_), nullptr);
  made.receiver->withdraw();
  const std::vector<std::byte> before = target_;
  for (int i = 0; i < 100; ++i) {
    (void)made.sender->progress();
    EXPECT_EQ(made.receiver->receive_into(target_), nullptr);
  }
  EXPECT_EQ(target_, before);
}

TEST_F(Lending, AnotherCallInTheMiddleIsRefused) {
  const LastingMemory::Hold source(source_);
  const LastingMemory::Hold target(target_);
  PipePair made = open_pair();
  (void)lend(made);
  arrive(made);
  set_fake_port_up(1, false);
  EXPECT_EQ(made.receiver->receive_into(target_), nullptr);
  EXPECT_EQ(made.receiver->peek(), nullptr);
  EXPECT_THAT(made.receiver->progress().message(), HasSubstr("peek in the middle of receive_into"));
}

}  // namespace
}  // namespace hocket::test
