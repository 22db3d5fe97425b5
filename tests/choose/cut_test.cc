// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Slices are so short that pipes to many peers stay within the budget, and not shorter.
#include "choose/cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

namespace hocket {
namespace {

constexpr size_t kPage = 4096;

TEST(SliceLimit, DefaultGrowsWithTheLogarithmOfTheRanks) {
  EXPECT_EQ(default_pipe_memory(1), 4u << 20);
  EXPECT_EQ(default_pipe_memory(2), 4u << 20);
  EXPECT_EQ(default_pipe_memory(3), 8u << 20);
  EXPECT_EQ(default_pipe_memory(4), 8u << 20);
  EXPECT_EQ(default_pipe_memory(64), 24u << 20);
  EXPECT_EQ(default_pipe_memory(65), 28u << 20);
}

// What a rank's pipes hold of which all send over, and some, of rings and trees, with the longest slices.
size_t held(size_t slice, size_t pipes, size_t longest) {
  const size_t whole = std::min(pipes, longest);
  return kMessagesInPipe * (whole * kLongestInMemory + (pipes - whole) * slice);
}

TEST(SliceLimit, KeepsWithinTheBudgetInMemory) {
  for (Rank ranks = 2; ranks <= 512; ++ranks) {
    const size_t budget = default_pipe_memory(ranks);
    const SliceLimit limit(kLongestInMemory, budget, {.ranks = ranks, .per_host = ranks, .memory = true});
    const size_t slice = limit.to(ranks - 1);
    // Rings, trees and halving send to no more than that.
    const int32_t few = 2 * std::bit_width(static_cast<uint32_t>(ranks - 1));
    EXPECT_EQ(limit.to(std::min(few, ranks - 1)), kLongestInMemory) << ranks;
    const auto pipes = static_cast<size_t>(ranks - 1);
    EXPECT_EQ(slice == kLongestInMemory, held(kLongestInMemory, pipes, pipes) <= budget) << ranks << ": " << slice;
    if (slice == kPage) continue;
    EXPECT_LE(held(slice, pipes, static_cast<size_t>(few)), budget) << ranks << ": " << slice;
    if (slice < kLongestInMemory) {
      EXPECT_GT(held(slice + kPage, pipes, static_cast<size_t>(few)), budget) << ranks << ": " << slice;
    }
  }
}

TEST(SliceLimit, FollowsAUsersBudget) {
  const Placement sixteen{.ranks = 16, .per_host = 16, .memory = true};
  EXPECT_EQ(SliceLimit(kLongestInMemory, 2 << 20, sixteen).to(15), 8192u);
  EXPECT_EQ(SliceLimit(kLongestInMemory, 1 << 20, sixteen).to(1), kLongestInMemory);
  EXPECT_EQ(SliceLimit(kLongestInMemory, 1, sixteen).to(15), kPage) << "never shorter";
  EXPECT_EQ(SliceLimit(kLongestInMemory, size_t{1} << 30, sixteen).to(15), kLongestInMemory);
  EXPECT_EQ(SliceLimit(kLongestInMemory).to(100'000), kLongestInMemory) << "without one";
  EXPECT_EQ(SliceLimit(kWhole).to(100'000), kWhole);
}

// A pipe over sockets holds a slice, and each lane has pipes of its own.
TEST(SliceLimit, CountsWhatPipesHold) {
  const SliceLimit apart(256 << 10, default_pipe_memory(64), {.ranks = 64, .per_host = 1, .memory = true});
  EXPECT_EQ(apart.to(63), size_t{256} << 10);
  EXPECT_LT(apart.to(63, 8), size_t{64} << 10);
  const SliceLimit sockets(256 << 10, default_pipe_memory(64), {.ranks = 64, .per_host = 64, .memory = false});
  EXPECT_EQ(sockets.to(63), size_t{256} << 10);
  const SliceLimit both(256 << 10, default_pipe_memory(64), {.ranks = 64, .per_host = 32, .memory = true});
  const SliceLimit memory(256 << 10, default_pipe_memory(64), {.ranks = 64, .per_host = 64, .memory = true});
  EXPECT_GT(both.to(63), memory.to(63));
}

TEST(SliceLimit, CutsTransfersInMemoryLess) {
  const auto of = [](Rank ranks) {
    return SliceLimit(kLongestInMemory, default_pipe_memory(ranks), {.ranks = ranks, .per_host = ranks, .memory = true})
        .of_transfers();
  };
  EXPECT_EQ(of(16), kLongestInMemory);
  EXPECT_LT(of(32), kLongestInMemory);
  EXPECT_EQ(of(1000), kShortSlice);
}

}  // namespace
}  // namespace hocket
