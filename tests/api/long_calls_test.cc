// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Calls whose buffers no cache holds: what only moves is written past the caches there.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

constexpr int kRanks = 2;
constexpr size_t kEach = (7 << 20) + 3;  // 28 MiB, and no whole line

int32_t value(int rank, size_t index) { return rank * 1'000'000'007 + static_cast<int32_t>(index); }

// A buffer, begun where no line begins, and what lies around it.
class Guarded {
 public:
  explicit Guarded(size_t count) : all_(count + 2, kGuard) {}
  ~Guarded() {
    EXPECT_EQ(all_.front(), kGuard);
    EXPECT_EQ(all_.back(), kGuard);
  }
  int32_t* data() { return all_.data() + 1; }
  // All of it is what `expected` says of each place.
  template <typename Expected>
  void expect(const Expected& expected) {
    for (size_t i = 0; i + 2 < all_.size(); ++i) ASSERT_EQ(data()[i], expected(i)) << i;
  }

 private:
  static constexpr int32_t kGuard = -77777;
  std::vector<int32_t> all_;
};

void fill(int rank, int32_t* memory, size_t count) {
  for (size_t i = 0; i < count; ++i) memory[i] = value(rank, i);
}

TEST(LongCalls, Broadcast) {
  run_threads(kRanks, [](Member& member) {
    Guarded buffer(kEach);
    fill(member.rank, buffer.data(), kEach);
    EXPECT_EQ(hocketBcast(buffer.data(), kEach, hocketInt32, 1, member.comm, nullptr), hocketSuccess);
    buffer.expect([](size_t i) { return value(1, i); });
  });
}

TEST(LongCalls, AllGather) {
  run_threads(kRanks, [](Member& member) {
    Guarded own(kEach), all(kRanks * kEach);
    fill(member.rank, own.data(), kEach);
    EXPECT_EQ(hocketAllGather(own.data(), all.data(), kEach, hocketInt32, member.comm, nullptr), hocketSuccess);
    all.expect([](size_t i) { return value(static_cast<int>(i / kEach), i % kEach); });
  });
}

TEST(LongCalls, AllToAllInPlaceAndNot) {
  run_threads(kRanks, [](Member& member) {
    Guarded sent(kRanks * kEach), received(kRanks * kEach);
    fill(member.rank, sent.data(), kRanks * kEach);
    const auto expected = [&](size_t i) {
      return value(static_cast<int>(i / kEach), i % kEach + static_cast<size_t>(member.rank) * kEach);
    };
    EXPECT_EQ(hocketAllToAll(sent.data(), received.data(), kEach, hocketInt32, member.comm, nullptr), hocketSuccess);
    received.expect(expected);
    EXPECT_EQ(hocketAllToAll(sent.data(), sent.data(), kEach, hocketInt32, member.comm, nullptr), hocketSuccess);
    sent.expect(expected);
  });
}

TEST(LongCalls, AllReduce) {
  run_threads(kRanks, [](Member& member) {
    Guarded sent(kEach), received(kEach);
    fill(member.rank, sent.data(), kEach);
    EXPECT_EQ(hocketAllReduce(sent.data(), received.data(), kEach, hocketInt32, hocketSum, member.comm, nullptr),
              hocketSuccess);
    received.expect([](size_t i) { return value(0, i) + value(1, i); });
  });
}

}  // namespace
}  // namespace hocket::test
