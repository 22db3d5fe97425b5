// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What pipes hold is what they say, and what only makes them faster they take from the budget alone.
#include "transports/budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "tests/transports/mapped_ring.h"
#include "transports/ring.h"

namespace hocket {
namespace {

constexpr size_t kMaxMessage = 128 << 10;

TEST(Budget, PartsCountForTheWhole) {
  const auto whole = std::make_shared<Budget>(100);
  const auto part = std::make_shared<Budget>(50, whole);
  Holding rest(whole);
  rest.grow(60);
  {
    Holding of_part(part);
    EXPECT_EQ(of_part.share(), 50u) << "nobody holds any of it";
    EXPECT_TRUE(of_part.fits(50));
    EXPECT_FALSE(of_part.fits(51));
    of_part.grow_to(30);
    of_part.grow_to(20);
    EXPECT_EQ(part->held(), 30u);
    EXPECT_EQ(whole->held(), 90u);
    EXPECT_FALSE(rest.fits(11));
    of_part.grow(100);
    EXPECT_FALSE(of_part.fits(0)) << "beyond it";
    Holding another(part);
    EXPECT_EQ(another.share(), 50u) << "it holds nothing yet";
    another.grow(1);
    EXPECT_EQ(another.share(), 25u);
  }
  EXPECT_EQ(part->held(), 0u);
  EXPECT_EQ(whole->held(), 60u);
}

TEST(Budget, AllowsForSpeedWhatLeavesAnEighth) {
  const auto budget = std::make_shared<Budget>(800);
  Holding holding(budget);
  EXPECT_TRUE(holding.allows(700));
  EXPECT_FALSE(holding.allows(701));
  holding.grow(600);
  EXPECT_TRUE(holding.allows(100));
  EXPECT_FALSE(holding.allows(101));
  EXPECT_FALSE(holding.allows(SIZE_MAX));
  EXPECT_TRUE(holding.fits(200)) << "what is needed";
  EXPECT_FALSE(holding.fits(201));
  holding.grow(101);
  EXPECT_FALSE(holding.allows(0)) << "beyond it";
  EXPECT_TRUE(Holding(nullptr).allows(SIZE_MAX)) << "nobody counts";
}

TEST(Budget, ShowsWhatIsHeldUntilItIsToldNotTo) {
  const auto budget = std::make_shared<Budget>(100);
  std::atomic<uint64_t> shown = 1000;
  budget->show(&shown);
  EXPECT_EQ(shown, 0u);
  {
    Holding holding(budget);
    holding.grow(7);
    EXPECT_EQ(shown, 7u);
    holding.grow_to(9);
    EXPECT_EQ(shown, 9u);
  }
  EXPECT_EQ(shown, 0u);
  budget->show(nullptr);
  Holding(budget).grow(1);
  EXPECT_EQ(shown, 0u);
}

// Whatever the order in which threads write it down.
TEST(Budget, ShowsInTheEndWhatAllThreadsHold) {
  const auto budget = std::make_shared<Budget>(100);
  std::atomic<uint64_t> shown;
  budget->show(&shown);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::thread> threads;
    std::array<std::optional<Holding>, 3> holdings;
    for (auto& holding : holdings) {
      threads.emplace_back([&] {
        holding.emplace(budget);
        for (int i = 0; i < 50; ++i) holding->grow(1);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(shown, 150u);
  }
}

TEST(Budget, CountsEveryPageOnce) {
  const auto budget = std::make_shared<Budget>(1 << 30);
  constexpr size_t kPages = 300;
  const size_t page = page_bytes();
  PageHolding holding(budget, kPages * page);
  std::vector<bool> written(kPages);
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const size_t offset = random() % (kPages * page);
    const size_t bytes = std::min<size_t>(random() % (round % 2 == 0 ? 5000 : 400'000), kPages * page - offset);
    holding.write(offset, bytes);
    for (size_t byte = offset; byte < offset + bytes; ++byte) written[byte / page] = true;
    ASSERT_EQ(budget->held(), page * static_cast<size_t>(std::ranges::count(written, true)));
  }
}

// Time that every look of a sender at its reader takes: as long as a middle distance does.
struct Steps final : Clock {
  Time now() override { return time += std::chrono::nanoseconds(400); }
  Time time{};
};

class BudgetOfRings : public testing::Test {
 protected:
  // A rank's two ends towards the other.
  struct End {
    End(const test::MappedRing& to, const test::MappedRing& from, Clock& clock, bool may_widen,
        const std::shared_ptr<Budget>& budget)
        : trade(std::make_shared<SlotTrade>()),
          sender(to.ring(), real_system().memory, clock, "to", nullptr, trade, may_widen, budget),
          receiver(from.ring(), real_system().memory, "from", nullptr, trade, budget) {}
    std::shared_ptr<SlotTrade> trade;
    RingSender sender;
    RingReceiver receiver;
  };

  void make(size_t budget_bytes, bool may_widen) {
    ours_ = std::make_shared<Budget>(budget_bytes);
    theirs_ = std::make_shared<Budget>(budget_bytes);
    a_.emplace(to_b_, to_a_, clock_, may_widen, ours_);
    b_.emplace(to_a_, to_b_, clock_, may_widen, theirs_);
  }
  static bool send(End& from, size_t bytes) {
    std::byte* const memory = from.sender.reserve(bytes);
    if (memory == nullptr) return false;
    std::memset(memory, 1, bytes);
    from.sender.commit(bytes, {});
    return true;
  }
  static void receive(End& at) {
    ASSERT_NE(at.receiver.peek(), nullptr);
    at.receiver.release();
  }

  Steps clock_;
  test::MappedRing to_a_{kMaxMessage}, to_b_{kMaxMessage};
  std::shared_ptr<Budget> ours_, theirs_;
  std::optional<End> a_, b_;
};

TEST_F(BudgetOfRings, IsAsMuchAsIsTouched) {
  make(64 << 20, false);
  std::mt19937 random(3);
  size_t on_way = 0;
  for (int message = 0; message < 2000; ++message) {
    ASSERT_TRUE(send(*a_, random() % (random() % 2 == 0 ? 2000 : kMaxMessage)));
    for (++on_way; on_way == kPipeDepth || (on_way > 0 && random() % 4 == 0); --on_way) receive(*b_);
    // By then all that lies beside the cells was used, which counts at once.
    if (message > 200 && message % 100 == 0) {
      ASSERT_EQ(ours_->held(), to_b_.resident_bytes());
    }
  }
  EXPECT_EQ(theirs_->held(), to_a_.resident_bytes()) << "it has sent nothing";
  a_.reset();
  EXPECT_EQ(ours_->held(), 0u);
}

// Both may.
TEST_F(BudgetOfRings, TradedSlotsAreHeldByWhoHasWrittenThere) {
  make(64 << 20, false);
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(send(*a_, 200));
    receive(*b_);
    ASSERT_TRUE(send(*b_, round < 10 ? 200 : kMaxMessage));
    receive(*a_);
  }
  const size_t resident = to_a_.resident_bytes() + to_b_.resident_bytes();
  EXPECT_GE(ours_->held() + theirs_->held(), resident);
  EXPECT_LE(ours_->held() + theirs_->held(), resident + 2 * Ring::kBulkOffset + Ring::kMostGiven * page_bytes());
}

// Both ways, so that slots are traded.
class Extras : public BudgetOfRings, public testing::WithParamInterface<bool> {};

TEST_P(Extras, AreTakenWhileTheBudgetAllowsThem) {
  const bool is_large = GetParam();
  make(is_large ? 64 << 20 : kPipeDepth * kMaxMessage, true);
  size_t most_given = 0;
  for (int round = 0; round < 2000; ++round) {
    for (size_t i = 0; i < kPipeDepth; ++i) ASSERT_TRUE(send(*a_, kMaxMessage)) << "what it promises, in any case";
    for (size_t i = 0; i < kPipeDepth; ++i) receive(*b_);
    // An answer that gives no slot back.
    ASSERT_TRUE(send(*b_, 129));
    receive(*a_);
    most_given = std::max(most_given, ours_->held());
  }
  const size_t promised = 4096 + kPipeDepth * kMaxMessage;
  EXPECT_EQ(to_b_.resident_bytes() > promised + 4096 * 9, is_large) << to_b_.resident_bytes();
  EXPECT_EQ(most_given > promised + 4096 * 9, is_large) << most_given;
}

// One way, to a reader at middle distance: messages of half the length take twice what they need.
TEST_P(Extras, UnitsAreTakenInTurnWhileTheBudgetAllowsThem) {
  constexpr size_t kHalf = kMaxMessage / 2;
  make(GetParam() ? 64 << 20 : kPipeDepth * kHalf, true);
  for (int message = 0; message < 5000; ++message) {
    ASSERT_TRUE(send(*a_, kHalf));
    receive(*b_);
  }
  EXPECT_EQ(ours_->held() > kPipeDepth * kHalf + page_bytes(), GetParam()) << ours_->held();
}

INSTANTIATE_TEST_SUITE_P(Budgets, Extras, testing::Bool());

}  // namespace
}  // namespace hocket
