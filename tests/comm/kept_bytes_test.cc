// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a stream between hosts keeps grows as the budget allows, loses nothing on the way, and is never so short that
// the stream would stop.
#include "comm/kept_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "tests/comm/stream_pair.h"

namespace hocket::test {
namespace {

std::byte byte_of(uint64_t number) { return static_cast<std::byte>(number * 251 + number / 65'536); }

// Grows at all places of the ring, and wherever what it keeps begins and ends.
TEST(KeptBytes, KeepsThemWhileItGrows) {
  std::mt19937 random(17);
  for (int round = 0; round < 20; ++round) {
    KeptBytes kept(nullptr);
    ASSERT_TRUE(kept.grow(0, 0));
    EXPECT_EQ(kept.size(), KeptBytes::kFirst);
    uint64_t begin = random(), end = begin;
    while (kept.size() < KeptBytes::kMost) {
      begin += random() % (end - begin + 1);
      for (const uint64_t to = begin + random() % (kept.size() + 1); end < to; ++end) kept.at(end)[0] = byte_of(end);
      ASSERT_TRUE(kept.grow(begin, end));
      for (uint64_t number = begin; number < end; ++number) ASSERT_EQ(kept.at(number)[0], byte_of(number)) << number;
    }
    EXPECT_FALSE(kept.grow(begin, end)) << "it is as long as can be";
  }
}

TEST(KeptBytes, TakesItsShareOfTheBudget) {
  const auto budget = std::make_shared<Budget>(2 * KeptBytes::kMost);
  std::array<std::unique_ptr<KeptBytes>, 4> all;
  for (auto& kept : all) {
    kept = std::make_unique<KeptBytes>(budget);
    EXPECT_TRUE(kept->grow(0, 0));
  }
  for (auto& kept : all) {
    while (kept->grow(0, 0)) {
    }
    EXPECT_EQ(kept->size(), KeptBytes::kMost / 2);
  }
  EXPECT_EQ(budget->held(), budget->bytes());
  for (size_t i = 1; i < all.size(); ++i) all[i].reset();
  EXPECT_TRUE(all[0]->grow(0, 0)) << "the others have left";
  EXPECT_EQ(budget->held(), KeptBytes::kMost);
}

TEST(KeptBytes, HasAFirstRingWhateverTheBudget) {
  const auto budget = std::make_shared<Budget>(0);
  KeptBytes kept(budget);
  EXPECT_TRUE(kept.grow(0, 0));
  EXPECT_FALSE(kept.grow(0, 0));
  EXPECT_EQ(kept.size(), KeptBytes::kFirst);
  EXPECT_EQ(budget->held(), KeptBytes::kFirst);
}

class StreamOfBudget : public testing::TestWithParam<std::tuple<size_t, bool>> {};

// Who receives tells what has come before the sender has no room left, however little that keeps, also where its
// connection is lost again and again, and while what is kept grows.
TEST_P(StreamOfBudget, NeverStops) {
  constexpr size_t kBytes = 20 << 20;
  const auto [bytes, is_cut] = GetParam();
  const auto budget = std::make_shared<Budget>(bytes);
  StreamPair streams(std::move(*real_system().network.make_poller()), std::move(*real_system().network.make_poller()),
                     budget);
  const auto from = streams.dialling();
  const auto to = streams.accepting();
  std::vector<std::byte> sent(kBytes), got(kBytes);
  for (size_t i = 0; i < kBytes; ++i) sent[i] = byte_of(i);
  size_t gone = 0, come = 0;
  std::mt19937 random(23);
  ASSERT_TRUE(wait_until(real_system(),
                         [&] {
                           streams.tend();
                           if (is_cut && random() % 64 == 0) streams.cut();
                           const std::array<std::span<const std::byte>, 1> parts = {
                               std::span(sent).subspan(gone, std::min<size_t>(kBytes - gone, 400'000))};
                           if (gone < kBytes) gone += *from->send(parts);
                           come += *to->receive(std::span(got).subspan(come));
                           return come == kBytes;
                         }))
      << come << " of " << kBytes << " bytes have come, " << gone << " were taken";
  EXPECT_EQ(sent, got);
  EXPECT_GE(budget->held(), KeptBytes::kFirst);
  EXPECT_LE(budget->held(), std::clamp(bytes, KeptBytes::kFirst, KeptBytes::kMost));
  EXPECT_EQ(budget->held() > KeptBytes::kFirst, bytes > KeptBytes::kFirst) << budget->held();
}

INSTANTIATE_TEST_SUITE_P(Budgets, StreamOfBudget,
                         testing::Combine(testing::Values(0, 256 << 10, 64 << 20), testing::Bool()));

}  // namespace
}  // namespace hocket::test
