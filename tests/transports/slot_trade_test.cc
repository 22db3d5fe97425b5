// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Two ranks with a ring each way, whose slots change hands.
#include "transports/slot_trade.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <utility>

#include "tests/transports/mapped_ring.h"
#include "transports/ring.h"

namespace hocket {
namespace {

constexpr size_t kMaxMessage = 80'000;
constexpr size_t kLong = 64 << 10;

struct Memory : test::MappedRing {
  Memory() : MappedRing(kMaxMessage) {}
  // The next message, as a peer may write it.
  void plant(uint32_t slot, size_t bytes) {
    std::memcpy(control().cells[0].data, &slot, sizeof(slot));
    control().cells[0].header.store(RingHeader{1, static_cast<uint32_t>(bytes), 0}.pack());
  }
};

// One rank: what it sends goes into `to`, what it receives comes from `from`.
struct Trader {
  Trader(const Memory& to, const Memory& from)
      : trade(std::make_shared<SlotTrade>()),
        sender(to.ring(), real_system().memory, real_system().clock, "to the other", nullptr, trade, false),
        receiver(from.ring(), real_system().memory, "from the other", nullptr, trade) {}

  bool send(size_t bytes, uint8_t value) {
    std::byte* memory = sender.reserve(bytes);
    if (memory == nullptr) return false;
    std::memset(memory, value, bytes);
    sender.commit(bytes, {});
    return true;
  }
  // Where the message lay.
  const std::byte* receive(size_t bytes, uint8_t value) {
    const Message* message = receiver.peek();
    if (message == nullptr) return nullptr;
    const std::byte* data = message->data;
    EXPECT_EQ(message->size, bytes);
    for (size_t i = 0; i < message->size; ++i) {
      if (data[i] != std::byte{value}) return nullptr;
    }
    receiver.release();
    return data;
  }

  std::shared_ptr<SlotTrade> trade;
  RingSender sender;
  RingReceiver receiver;
};

class SlotTradeTest : public testing::Test {
 protected:
  SlotTradeTest() : a_(to_b_, to_a_), b_(to_a_, to_b_) {}

  // Before it has heard of the other, nobody gives anything.
  void meet() {
    ASSERT_TRUE(a_.send(2000, 1));
    ASSERT_TRUE(b_.send(2000, 2));
    ASSERT_NE(a_.receive(2000, 2), nullptr);
    ASSERT_NE(b_.receive(2000, 1), nullptr);
  }

  Memory to_a_, to_b_;
  Trader a_, b_;
};

TEST_F(SlotTradeTest, WhoHasReadASlotSendsInIt) {
  meet();
  for (const size_t bytes : {size_t{129}, size_t{1000}, size_t{2000}, kMaxMessage}) {
    ASSERT_TRUE(a_.send(bytes, 1));
    const std::byte* slot = b_.receive(bytes, 1);
    ASSERT_NE(slot, nullptr);
    EXPECT_TRUE(to_b_.holds(slot));
    EXPECT_EQ(b_.sender.reserve(bytes), slot);
    ASSERT_TRUE(b_.send(bytes, 2));
    EXPECT_EQ(a_.receive(bytes, 2), slot);
    EXPECT_EQ(a_.sender.reserve(bytes), slot) << "it has come home";
  }
}

TEST_F(SlotTradeTest, OnlyWhatTheReaderHoldsIsStreamed) {
  ASSERT_NE(a_.sender.reserve(8192), nullptr);
  EXPECT_LE(a_.sender.streaming_from, 8192u) << "one of its own";
  meet();
  ASSERT_TRUE(a_.send(8192, 1));
  ASSERT_NE(b_.receive(8192, 1), nullptr);
  ASSERT_NE(b_.sender.reserve(8192), nullptr);
  EXPECT_EQ(b_.sender.streaming_from, SIZE_MAX);
}

// As with nobody to trade with: two places for long messages, one after the other.
TEST_F(SlotTradeTest, WhatGoesOneWayStaysInFewPlacesInTurn) {
  const std::byte* before = nullptr;
  const std::byte* last = nullptr;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(a_.send(kLong, 1));
    const std::byte* slot = b_.receive(kLong, 1);
    ASSERT_NE(slot, nullptr);
    EXPECT_TRUE(i < 2 || slot == before) << i;
    EXPECT_NE(slot, last) << i;
    before = std::exchange(last, slot);
  }
}

TEST_F(SlotTradeTest, ShortMessagesThatNobodyAnswersGoBesideTheirCells) {
  meet();
  for (int i = 0; i < Ring::kMostGiven; ++i) {
    ASSERT_TRUE(a_.send(500, 1));
    ASSERT_GE(b_.receive(500, 1), to_b_.begin() + Ring::kBulkOffset);
  }
  ASSERT_TRUE(a_.send(500, 1));
  EXPECT_LT(b_.receive(500, 1), to_b_.begin() + Ring::kBulkOffset);
}

TEST_F(SlotTradeTest, AReservationStaysWhereItIsWhateverComes) {
  meet();
  for (int i = 0; i < Ring::kMostGiven; ++i) {
    ASSERT_TRUE(a_.send(500, 1));
    ASSERT_NE(b_.receive(500, 1), nullptr);
  }
  const std::byte* beside = a_.sender.reserve(500);
  ASSERT_TRUE(b_.send(500, 2));
  ASSERT_NE(a_.receive(500, 2), nullptr);
  EXPECT_EQ(a_.sender.reserve(500), beside);
  ASSERT_TRUE(a_.send(500, 3));
  EXPECT_EQ(b_.receive(500, 3), beside);
}

// What the peer keeps is beside what a pipe promises to hold.
TEST_F(SlotTradeTest, ThePipeStaysAsDeepAsItPromises) {
  meet();
  for (int i = 0; i < 10 * Ring::kMostGiven; ++i) {
    ASSERT_TRUE(a_.send(2000, 1));
    ASSERT_NE(b_.receive(2000, 1), nullptr);
  }
  for (size_t i = 0; i < kPipeDepth; ++i) ASSERT_TRUE(a_.send(kMaxMessage, static_cast<uint8_t>(i))) << i;
  EXPECT_FALSE(a_.send(2000, 1));
  for (size_t i = 0; i < kPipeDepth; ++i) ASSERT_NE(b_.receive(kMaxMessage, static_cast<uint8_t>(i)), nullptr) << i;
  EXPECT_TRUE(a_.sender.progress().ok());
}

TEST_F(SlotTradeTest, TrafficOfAllKindsComesAsItWasSent) {
  std::mt19937 random(7);
  std::deque<std::pair<size_t, uint8_t>> on_way[2];
  Trader* ranks[2] = {&a_, &b_};
  uint8_t value = 0;
  size_t received = 0;
  for (int step = 0; step < 200'000; ++step) {
    const size_t rank = random() % 2;
    // Each way has its busy times.
    const bool sends = random() % 8 < (step / 1000 % 2 == static_cast<int>(rank) ? 6u : 3u);
    if (sends) {
      const size_t bytes = random() % (random() % 16 == 0 ? kMaxMessage + 1 : 3000);
      if (ranks[rank]->send(bytes, ++value)) on_way[rank].emplace_back(bytes, value);
      continue;
    }
    auto& waiting = on_way[1 - rank];
    if (waiting.empty()) {
      ASSERT_EQ(ranks[rank]->receiver.peek(), nullptr);
      continue;
    }
    const auto [bytes, expected] = waiting.front();
    waiting.pop_front();
    ASSERT_NE(ranks[rank]->receive(bytes, expected), nullptr) << ranks[rank]->receiver.progress().message();
    ++received;
  }
  EXPECT_GT(received, 50'000u);
  for (Trader* rank : ranks) EXPECT_TRUE(rank->sender.progress().ok()) << rank->sender.progress().message();
}

// The slots are the rings', and a rank's ends may go one after the other.
TEST(SlotTradeLife, MemoryStaysUntilBothEndsAreGone) {
  auto trade = std::make_shared<SlotTrade>();
  Memory to_peer, from_peer;
  Trader peer(from_peer, to_peer);
  auto sender = std::make_unique<RingSender>(to_peer.ring(), real_system().memory, real_system().clock, "to", nullptr,
                                             trade, false);
  auto receiver = std::make_unique<RingReceiver>(from_peer.ring(), real_system().memory, "from", nullptr, trade);
  trade.reset();
  std::memset(sender->reserve(2000), 3, 2000);
  sender->commit(2000, {});
  ASSERT_NE(peer.receive(2000, 3), nullptr);
  ASSERT_TRUE(peer.send(2000, 1));
  ASSERT_NE(receiver->peek(), nullptr);
  receiver->release();
  receiver.reset();
  from_peer.unmap();
  std::memset(sender->reserve(2000), 2, 2000);
  sender->commit(2000, {});
  EXPECT_NE(peer.receive(2000, 2), nullptr);
}

// What no honest peer says. Nothing of ours is away at first, and nothing of the peer's is here.
class LyingTraderTest : public SlotTradeTest, public testing::WithParamInterface<uint32_t> {};

TEST_P(LyingTraderTest, IsRefused) {
  to_a_.plant(GetParam(), 2000);
  EXPECT_EQ(a_.receiver.peek(), nullptr);
  EXPECT_NE(a_.receiver.progress().message().find("message 0 names place"), std::string::npos)
      << a_.receiver.progress().message();
}

INSTANTIATE_TEST_SUITE_P(Slots, LyingTraderTest,
                         testing::Values(RingPlace::kHome, RingPlace::kHome + 3, RingPlace::kHome | RingPlace::kGiven,
                                         RingPlace::kHome + Ring::kMostGiven, RingPlace::kGiven + Ring::kMostGiven,
                                         RingPlace::kShared << 1, uint32_t{Ring::kUnits},
                                         RingPlace::kShared + Ring::kUnits, RingPlace::kShared + RingPlace::kGiven));

TEST_F(SlotTradeTest, WhatIsHereCannotComeAgain) {
  to_a_.plant(RingPlace::kGiven + 2, 2000);
  ASSERT_NE(a_.receiver.peek(), nullptr);
  a_.receiver.release();
  const uint32_t again = RingPlace::kGiven + 2;
  std::memcpy(to_a_.control().cells[1].data, &again, sizeof(again));
  to_a_.control().cells[1].header.store(RingHeader{2, 2000, 0}.pack());
  EXPECT_EQ(a_.receiver.peek(), nullptr);
  EXPECT_NE(a_.receiver.progress().message().find("names place 0x102"), std::string::npos)
      << a_.receiver.progress().message();
}

TEST(SlotTradeLife, NothingToCommitIsNoHarm) {
  Memory to, from;
  Trader trader(to, from);
  ASSERT_TRUE(trader.send(2000, 1));
  trader.sender.commit(0, {});
  EXPECT_TRUE(trader.sender.progress().ok());
}

}  // namespace
}  // namespace hocket
