// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The ring against a peer that writes what it likes, and its economy of memory.
#include "transports/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "tests/transports/mapped_ring.h"

namespace hocket {
namespace {

constexpr size_t kMaxMessage = 100'000;

// Of an end whose rank has no pipe the other way.
std::shared_ptr<SlotTrade> alone() { return std::make_shared<SlotTrade>(); }

// Both ends over memory that the test can also write.
class RingTest : public testing::Test {
 protected:
  RingTest()
      : memory_(mapped_.begin()),
        control_(mapped_.control()),
        sender_(
            ring(), real_system().memory, real_system().clock, "a pipe to rank 1", [this] { ++woken_reader_; }, trade_,
            false),
        receiver_(ring(), real_system().memory, "a pipe from rank 0", [this] { ++woken_writer_; }, alone()) {}

  Ring ring() { return mapped_.ring(); }
  size_t resident_bytes() { return mapped_.resident_bytes(); }

  void send(size_t bytes) {
    std::byte* memory = sender_.reserve(bytes);
    ASSERT_NE(memory, nullptr);
    if (bytes > 0) std::memset(memory, 0x5A, bytes);
    sender_.commit(bytes, Envelope{});
  }

  // That it is as it was sent.
  void receive(size_t bytes) {
    const Message* message = receiver_.peek();
    ASSERT_NE(message, nullptr);
    ASSERT_EQ(message->size, bytes);
    EXPECT_TRUE(std::all_of(message->data, message->data + bytes, [](std::byte b) { return b == std::byte{0x5A}; }));
    receiver_.release();
  }

  // Whether the sender wrote to the lines of a message that has been read, which would hold nothing but what it sent.
  bool is_taken(uint64_t message, size_t bytes) {
    const std::byte* const data = bytes <= RingCell::kInlineBytes ? ring().cell(message).data : ring().beside(message);
    return data[0] != std::byte{0x5A} && data[(bytes - 1) / 64 * 64] != std::byte{0x5A};
  }

  void plant(RingHeader header, uint32_t slot) {
    std::memcpy(control_.cells[0].data, &slot, sizeof(slot));
    control_.cells[0].header.store(header.pack());
  }

  void expect_receiver_fails(const std::string& part) {
    EXPECT_EQ(receiver_.peek(), nullptr);
    EXPECT_EQ(receiver_.progress().code(), Code::kInternal);
    EXPECT_NE(receiver_.progress().message().find(part), std::string::npos) << receiver_.progress().message();
    EXPECT_NE(receiver_.progress().message().find("rank 0"), std::string::npos);
    // It stays failed, whatever comes.
    plant({1, 4, 0}, 0);
    EXPECT_EQ(receiver_.peek(), nullptr);
    EXPECT_FALSE(receiver_.progress().ok());
  }

  test::MappedRing mapped_{kMaxMessage};
  std::byte* memory_;
  RingControl& control_;
  int woken_reader_ = 0;
  int woken_writer_ = 0;
  const std::shared_ptr<SlotTrade> trade_ = alone();  // the sender's
  RingSender sender_;
  RingReceiver receiver_;
};

TEST_F(RingTest, HeaderWordKeepsItsFields) {
  const RingHeader header = RingHeader::unpack(RingHeader{0xABCD, 0xFFFFFF, 0x123456}.pack());
  EXPECT_EQ(header.sequence, 0xABCD);
  EXPECT_EQ(header.length, 0xFFFFFFu);
  EXPECT_EQ(header.digest, 0x123456u);
}

TEST_F(RingTest, RefusesALengthBeyondTheLimit) {
  plant({1, kMaxMessage + 1, 0}, 0);
  expect_receiver_fails("claims 100001 bytes; the limit is 100000");
}

TEST_F(RingTest, RefusesASlotThatIsNotThere) {
  plant({1, 1000, 0}, Ring::kUnits);
  expect_receiver_fails("names place 0x40, which is not there");
}

TEST_F(RingTest, RefusesAMessageThatEndsBehindTheLastUnit) {
  plant({1, kMaxMessage, 0}, Ring::kUnits - Ring::kSlotUnits + 1);
  expect_receiver_fails("names place 0x39, which is not there");
}

TEST_F(RingTest, RefusesAStrangeSequence) {
  plant({2, 4, 0}, 0);
  expect_receiver_fails("sequence 2 where message 0 was expected");
}

TEST_F(RingTest, RefusesAReleaseOfWhatWasNotSent) {
  for (size_t i = 0; i < kRingCells; ++i) send(8);
  control_.released.store(kRingCells + 1);
  EXPECT_EQ(sender_.reserve(8), nullptr);
  EXPECT_NE(sender_.progress().message().find("claims to have released 33 messages of 32 sent"), std::string::npos)
      << sender_.progress().message();
  control_.released.store(1);
  EXPECT_EQ(sender_.reserve(8), nullptr) << "a failed pipe stays failed";
}

TEST_F(RingTest, RefusesAReleaseThatGoesBackward) {
  for (size_t i = 0; i < kRingCells; ++i) send(8);
  control_.released.store(4);
  ASSERT_NE(sender_.reserve(100'000), nullptr);
  sender_.commit(100'000, Envelope{});
  control_.released.store(2);
  EXPECT_EQ(sender_.reserve(100'000), nullptr);
  EXPECT_FALSE(sender_.progress().ok());
}

TEST_F(RingTest, RefusesALongMessageBesideItsCell) {
  plant({1, Ring::kBesideBytes + 1, 0}, RingPlace::kBeside);
  expect_receiver_fails("names place 0xfffffffe, which is not there");
}

TEST_F(RingTest, LongMessagesWaitForUnitsAndShortOnesForACell) {
  for (size_t i = 0; i < kPipeDepth; ++i) send(kMaxMessage);
  EXPECT_EQ(sender_.reserve(2000), nullptr);
  for (size_t i = kPipeDepth; i < kRingCells; ++i) send(i % 2 == 0 ? 8 : Ring::kBesideBytes);
  EXPECT_EQ(sender_.reserve(8), nullptr);
  ASSERT_NE(receiver_.peek(), nullptr);
  receiver_.release();
  send(2000);
  EXPECT_EQ(sender_.reserve(8), nullptr);
  EXPECT_TRUE(sender_.progress().ok()) << sender_.progress().message();
}

// The producer learns with its first message that it may lend.
class LendingRingTest : public RingTest {
 protected:
  LendingRingTest() : lent_(kMaxMessage, std::byte{0x77}) {
    send(8);
    EXPECT_NE(receiver_.peek(), nullptr);
    receiver_.release();
    sender_.lent_from = 1 << 10;  // on all machines
  }

  void expect_refused(const std::string& part) {
    EXPECT_EQ(receiver_.peek(), nullptr);
    EXPECT_NE(receiver_.progress().message().find(part), std::string::npos) << receiver_.progress().message();
  }

  std::vector<std::byte> lent_;
};

TEST_F(LendingRingTest, ALentMessageTakesNoSlotAndIsFreeOnceLookedAt) {
  const size_t idle = resident_bytes();
  const Ticket ticket = sender_.lend(lent_, Envelope{});
  EXPECT_NE(ticket, kCopied);
  EXPECT_FALSE(sender_.done(ticket));
  const Message* got = receiver_.peek();
  ASSERT_NE(got, nullptr);
  EXPECT_TRUE(sender_.done(ticket));
  std::fill(lent_.begin(), lent_.end(), std::byte{0});
  EXPECT_TRUE(std::all_of(got->data, got->data + got->size, [](std::byte b) { return b == std::byte{0x77}; }));
  EXPECT_EQ(receiver_.peek(), got);
  receiver_.release();
  EXPECT_EQ(control_.released.load(), 2u);
  EXPECT_EQ(resident_bytes(), idle);
}

// Whatever it says: what is short goes through the ring.
TEST_F(RingTest, LendsFromWhereTheReceiverLikesToRead) {
  for (const auto& [said, lent_from] : {std::pair(0u, SIZE_MAX), {1u, size_t{16} << 10}, {40'000u, size_t{40'000}}}) {
    RingSender sender(ring(), real_system().memory, real_system().clock, "to", nullptr, alone(), false);
    control_.borrows_from = said;
    ASSERT_NE(sender.reserve(8), nullptr);
    sender.commit(8, Envelope{});
    EXPECT_EQ(sender.lent_from, lent_from);
  }
}

TEST_F(LendingRingTest, LandsAtOnce) {
  EXPECT_TRUE(receiver_.lands_at_once);
  std::vector<std::byte> into(kMaxMessage);
  EXPECT_EQ(receiver_.receive_into(into), nullptr);
  sender_.lend(lent_, Envelope{});
  const Message* got = receiver_.receive_into(into);
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(got->data, into.data());
  EXPECT_EQ(into, lent_);
  EXPECT_EQ(receiver_.peek(), got);
}

TEST_F(LendingRingTest, WakesTheLender) {
  sender_.lend(lent_, Envelope{});
  sender_.set_waiting(true);
  EXPECT_NE(receiver_.peek(), nullptr);
  EXPECT_EQ(woken_writer_, 1);
}

TEST_F(LendingRingTest, RefusesWhatWasWithdrawn) {
  sender_.lend(lent_, Envelope{});
  sender_.withdraw();
  expect_refused("was withdrawn");
}

TEST_F(LendingRingTest, RefusesWhatIsNotThere) {
  sender_.lend(std::span(reinterpret_cast<const std::byte*>(8), 20'000), Envelope{});
  expect_refused("is gone");
}

// Containers may give their processes one number, and programs without address randomisation use one address.
TEST_F(RingTest, ProvesItselfByWhatNoOtherProcessHolds) {
  std::optional<RingSender> sender;
  sender.emplace(ring(), real_system().memory, real_system().clock, "to", nullptr, alone(), false);
  const RingProof first = control_.proof;
  sender.emplace(ring(), real_system().memory, real_system().clock, "to", nullptr, alone(), false);
  EXPECT_EQ(first.process, control_.proof.process);
  EXPECT_EQ(first.address, control_.proof.address);
  EXPECT_NE(first.value, control_.proof.value);
}

// A container whose filter forbids reading other processes.
class OnlyShared final : public SharedMemory {
 public:
  Result<std::unique_ptr<Segment>> create(size_t) override { return Status(Code::kSystem, "none"); }
  Result<std::unique_ptr<Segment>> map(Handle, size_t) override { return Status(Code::kSystem, "none"); }
  int64_t process() override { return 1; }
  bool read(int64_t, uint64_t, std::span<std::byte>) override { return false; }
};

TEST_F(RingTest, LendsNothingToAReceiverThatCannotRead) {
  std::memset(memory_, 0, sizeof(RingControl));
  OnlyShared memory;
  RingSender sender(ring(), memory, real_system().clock, "to", nullptr, alone(), false);
  RingReceiver receiver(ring(), memory, "from", nullptr, alone());
  const std::vector<std::byte> bytes(kMaxMessage);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sender.lend(bytes, Envelope{}), kCopied);
    ASSERT_NE(receiver.peek(), nullptr);
    receiver.release();
  }
}

TEST_F(RingTest, SurvivesRandomControlMemory) {
  std::mt19937_64 random(1);
  std::vector<std::byte> read(kMaxMessage);
  for (int round = 0; round < 20'000; ++round) {
    std::memset(memory_, 0, sizeof(RingControl));
    RingSender sender(ring(), real_system().memory, real_system().clock, "to", nullptr, alone(), false);
    RingReceiver receiver(ring(), real_system().memory, "from", nullptr, alone());
    for (int step = 0; step < 12; ++step) {
      auto* words = reinterpret_cast<uint64_t*>(memory_);
      words[random() % (sizeof(RingControl) / 8)] = random() >> random() % 64;
      const size_t bytes = random() % 3 == 0 ? random() % 5000 : random() % 64;
      if (sender.reserve(bytes) != nullptr) sender.commit(bytes, Envelope{});
      if (const Message* got = receiver.peek()) {
        ASSERT_LE(got->size, kMaxMessage);
        std::copy(got->data, got->data + got->size, read.begin());
        receiver.release();
      }
    }
  }
}

TEST_F(RingTest, RunsPastTheEndOfTheSequenceNumbers) {
  for (uint32_t m = 0; m < 3 * 65536 + 5; ++m) {
    ASSERT_NO_FATAL_FAILURE(send(8));
    ASSERT_NE(receiver_.peek(), nullptr) << m;
    receiver_.release();
    ASSERT_EQ(receiver_.peek(), nullptr) << m;
  }
  EXPECT_TRUE(receiver_.progress().ok());
}

TEST_F(RingTest, IdleRingTouchesOnePage) {
  EXPECT_EQ(sender_.reserve(0) == nullptr, false);
  EXPECT_EQ(receiver_.peek(), nullptr);
  sender_.set_waiting(true);
  receiver_.set_waiting(true);
  EXPECT_LE(resident_bytes(), 4096u);
}

class NextCellTest : public RingTest, public testing::WithParamInterface<size_t> {};

TEST_P(NextCellTest, IsTakenFromThePeerWhereMessagesGoBothWays) {
  const size_t bytes = GetParam();
  for (size_t i = 0; i < 40; ++i) {
    send(bytes);
    receive(bytes);
    if (i < kRingCells) continue;
    EXPECT_FALSE(is_taken(i + 1, bytes)) << "nothing came";
  }
  trade_->answer();
  send(bytes);
  EXPECT_TRUE(is_taken(41, bytes));
  EXPECT_FALSE(is_taken(42, bytes));
  send(bytes);
  EXPECT_FALSE(is_taken(42, bytes)) << "nothing came since";
  receive(bytes);
  receive(bytes);
}

TEST_P(NextCellTest, IsLeftWhereItMayHoldAMessage) {
  const size_t bytes = GetParam();
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kRingCells; ++i) {
      trade_->answer();
      send(bytes);
    }
    for (size_t i = 0; i < kRingCells; ++i) receive(bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, NextCellTest, testing::Values(8, 56, 64, 1000));

TEST_F(RingTest, AMessageThatWasReadIsAnAnswerOnce) {
  EXPECT_FALSE(trade_->was_answered());
  const auto theirs = std::make_shared<SlotTrade>();
  RingReceiver receiver(ring(), real_system().memory, "a pipe from rank 0", [] {}, theirs);
  send(8);
  ASSERT_NE(receiver.peek(), nullptr);
  EXPECT_FALSE(theirs->was_answered()) << "not read yet";
  receiver.release();
  EXPECT_TRUE(theirs->was_answered());
  EXPECT_FALSE(theirs->was_answered());
}

TEST_F(RingTest, LongMessagesTakeTwoPlacesInTurnWhenTheReaderKeepsUp) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_NO_FATAL_FAILURE(send(kMaxMessage));
    ASSERT_NE(receiver_.peek(), nullptr);
    receiver_.release();
  }
  EXPECT_LE(resident_bytes(), 4096 + 2 * (kMaxMessage + 4096));
}

TEST_F(RingTest, ShortMessagesTouchNoSlot) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_NO_FATAL_FAILURE(send(RingCell::kInlineBytes));
    ASSERT_NE(receiver_.peek(), nullptr);
    receiver_.release();
  }
  EXPECT_LE(resident_bytes(), 4096u);
}

TEST_F(RingTest, WakesASleeperOnceAndNobodyElse) {
  send(8);
  EXPECT_EQ(woken_reader_, 0);
  receiver_.set_waiting(true);
  send(8);
  send(8);
  EXPECT_EQ(woken_reader_, 1);
  receiver_.set_waiting(true);
  receiver_.set_waiting(false);
  send(8);
  EXPECT_EQ(woken_reader_, 1);
  sender_.set_waiting(true);
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(receiver_.peek(), nullptr);
    receiver_.release();
  }
  EXPECT_EQ(woken_writer_, 1);
}

// Looks at the clock take as long as the test says.
class Steps final : public Clock {
 public:
  Time now() override { return now_ += step; }

  Duration step{};

 private:
  Time now_{};
};

TEST(ClaimsTest, TellHowFarTheReaderIsByHowLongALookTakes) {
  Steps clock;
  Claims claims(clock);
  std::vector<std::byte> memory(Claims::kProbedBytes + 64, std::byte{0x5A});
  clock.step = std::chrono::microseconds(2);
  claims.look(memory.data(), 8192);
  EXPECT_EQ(claims.distance(), Distance::kFar);
  EXPECT_EQ(memory[Claims::kProbedBytes], std::byte{0x5A});
  clock.step = std::chrono::nanoseconds(150);
  for (size_t bytes = 0; bytes + 8192 < Claims::kInterval; bytes += 8192) claims.look(memory.data(), 8192);
  EXPECT_EQ(claims.distance(), Distance::kFar);  // nobody has looked since
  claims.look(memory.data(), 8192);
  EXPECT_EQ(claims.distance(), Distance::kNear);
  // One that lasts longer may have met something else; four have not.
  clock.step = std::chrono::nanoseconds(400);
  for (int looks = 0; looks < 3; ++looks) claims.look(memory.data(), Claims::kInterval);
  EXPECT_EQ(claims.distance(), Distance::kNear);
  claims.look(memory.data(), Claims::kInterval);
  EXPECT_EQ(claims.distance(), Distance::kMiddle);
}

TEST_F(RingTest, AReaderAtMiddleDistanceIsFarForWhoOnlySends) {
  RingSender sender(ring(), real_system().memory, real_system().clock, "to", nullptr, alone(), false);
  const auto far = [&](Distance is) {
    sender.reader_distance = is;
    return std::pair(sender.reader_is_far(false), sender.reader_is_far(true));
  };
  EXPECT_EQ(far(Distance::kNear), std::pair(false, false));
  EXPECT_EQ(far(Distance::kMiddle), std::pair(true, false));
  EXPECT_EQ(far(Distance::kFar), std::pair(true, true));
}

// What the consumer has not read yet says nothing of it, and neither do short messages.
TEST_F(RingTest, LooksHowFarItsReaderIsWhereThatHasRead) {
  std::memset(memory_, 0, sizeof(RingControl));
  Steps clock;
  clock.step = std::chrono::milliseconds(1);
  RingSender sender(ring(), real_system().memory, clock, "to", nullptr, alone(), false);
  RingReceiver receiver(ring(), real_system().memory, "from", nullptr, alone());
  const auto pass = [&](size_t bytes) {
    ASSERT_NE(sender.reserve(bytes), nullptr);
    sender.commit(bytes, Envelope{});
    ASSERT_NE(receiver.peek(), nullptr);
    receiver.release();
  };
  for (size_t i = 0; i < 2 * kPipeDepth; ++i) pass(2000);
  EXPECT_EQ(sender.reader_distance, Distance::kNear);
  for (size_t i = 0; i < kPipeDepth; ++i) pass(8192);
  EXPECT_EQ(sender.reader_distance, Distance::kNear);
  pass(8192);
  EXPECT_EQ(sender.reader_distance, Distance::kFar);
}

class WideRingTest : public RingTest, public testing::WithParamInterface<bool> {};

TEST_P(WideRingTest, TakesAllUnitsInTurnOnceTheReaderIsAtMiddleDistance) {
  constexpr size_t kLong = 16 << 10;  // two units
  std::memset(memory_, 0, sizeof(RingControl));
  Steps clock;
  RingSender sender(ring(), real_system().memory, clock, "to", nullptr, alone(), GetParam());
  RingReceiver receiver(ring(), real_system().memory, "from", nullptr, alone());
  const auto pass = [&](size_t messages) {
    std::set<const std::byte*> places;
    Message last;
    for (size_t i = 0; i < messages; ++i) {
      if (sender.reserve(kLong) == nullptr) break;
      sender.commit(kLong, Envelope{});
      if (const Message* message = receiver.peek()) last = *message;
      places.insert(last.data);
      receiver.release();
    }
    return std::pair(places.size(), last.in_shared_cache);
  };
  EXPECT_EQ(pass(100), std::pair(size_t{8}, false)) << "128 KiB";
  const auto look = [&](Duration step, size_t times) {
    clock.step = step;
    for (size_t i = 0; i < times; ++i) pass(Claims::kInterval / kLong);
  };
  look(std::chrono::nanoseconds(400), 3);
  EXPECT_EQ(pass(100).first, size_t{8}) << "an earlier look said near";
  look({}, 1);
  look(std::chrono::milliseconds(1), 5);
  EXPECT_EQ(pass(100).first, size_t{8}) << "far, where it does not help";
  look(std::chrono::nanoseconds(400), 1);
  EXPECT_EQ(pass(100), std::pair(GetParam() ? size_t{32} : size_t{8}, false));
  clock.step = {};
  pass(Claims::kInterval / kLong);
  EXPECT_EQ(pass(100), std::pair(GetParam() ? size_t{32} : size_t{8}, GetParam())) << "near, by way of all units";
}

// However the places of shorter ones lie among the units.
TEST_P(WideRingTest, HoldsAsManyMessagesAsPromisedWhateverTheirLengths) {
  std::memset(memory_, 0, sizeof(RingControl));
  Steps clock;
  clock.step = std::chrono::nanoseconds(400);
  RingSender sender(ring(), real_system().memory, clock, "to", nullptr, alone(), GetParam());
  RingReceiver receiver(ring(), real_system().memory, "from", nullptr, alone());
  std::mt19937 random(11);
  for (size_t on_way = 0, message = 0; message < 20'000; ++message) {
    const size_t bytes = random() % 3 == 0 ? kMaxMessage : 2000 + random() % (random() % 2 == 0 ? 60'000 : 3000);
    std::byte* const room = sender.reserve(bytes);
    ASSERT_NE(room, nullptr) << bytes << " bytes beside " << on_way << " messages";
    ASSERT_EQ(sender.reserve(bytes), room);
    room[0] = room[bytes - 1] = static_cast<std::byte>(message);
    sender.commit(bytes, Envelope{});
    for (++on_way; on_way == kPipeDepth || (on_way > 0 && random() % 8 == 0); --on_way) {
      const Message* const got = receiver.peek();
      ASSERT_NE(got, nullptr) << receiver.progress().message();
      ASSERT_EQ(got->data[0], static_cast<std::byte>(message - on_way + 1));
      ASSERT_EQ(got->data[got->size - 1], got->data[0]);
      receiver.release();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Units, WideRingTest, testing::Bool());

}  // namespace
}  // namespace hocket
