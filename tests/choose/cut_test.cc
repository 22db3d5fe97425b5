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
  return kMessagesInPipe * (whole * kLongestInMemory + (pipes - whole) * slice) + pipes * kShortInPipe;
}

TEST(SliceLimit, KeepsWithinTheBudgetInMemory) {
  for (Rank ranks = 2; ranks <= 512; ++ranks) {
    const size_t budget = default_pipe_memory(ranks);
    const SliceLimit limit(kLongestInMemory, budget, {.ranks = ranks, .per_host = ranks, .memory = true});
    const size_t slice = limit.over(ranks - 1);
    // Rings, trees and halving send to no more than that.
    const int32_t few = 2 * std::bit_width(static_cast<uint32_t>(ranks - 1));
    EXPECT_EQ(limit.over(std::min(few, ranks - 1)), kLongestInMemory) << ranks;
    const auto pipes = static_cast<size_t>(ranks - 1);
    const auto held_with = [&](size_t length) { return held(length, pipes, static_cast<size_t>(few)); };
    if (held_with(kPage) > budget) {  // that must be
      EXPECT_EQ(slice, kPage) << ranks;
      EXPECT_GE(ranks, 200);
      continue;
    }
    EXPECT_LE(held_with(slice), budget) << ranks << ": " << slice;
    if (slice < kLongestInMemory) {
      EXPECT_GT(held_with(slice + kPage), budget) << ranks << ": " << slice;
    }
  }
}

TEST(SliceLimit, FollowsAUsersBudget) {
  const Placement sixteen{.ranks = 16, .per_host = 16, .memory = true};
  EXPECT_EQ(SliceLimit(kLongestInMemory, 2 << 20, sixteen).over(15), 4096u);
  EXPECT_EQ(SliceLimit(kLongestInMemory, 1 << 20, sixteen).over(1), 116u << 10);
  EXPECT_EQ(SliceLimit(kLongestInMemory, 1, sixteen).over(15), kPage) << "never shorter";
  EXPECT_EQ(SliceLimit(kLongestInMemory, size_t{1} << 30, sixteen).over(15), kLongestInMemory);
  EXPECT_EQ(SliceLimit(kLongestInMemory).over(100'000), kLongestInMemory) << "without one";
  EXPECT_EQ(SliceLimit(kWhole).over(100'000), kWhole);
}

// A pipe over sockets holds a slice.
TEST(SliceLimit, CountsWhatPipesHold) {
  const SliceLimit apart(kLongestInMemory, default_pipe_memory(64), {.ranks = 64, .per_host = 1, .memory = true});
  EXPECT_EQ(apart.over(63), kLongestInMemory);
  EXPECT_LT(apart.over(8 * 63), kShortSlice) << "over eight lanes";
  const SliceLimit sockets(kLongestInMemory, default_pipe_memory(64), {.ranks = 64, .per_host = 64, .memory = false});
  EXPECT_EQ(sockets.over(63), kLongestInMemory);
  const SliceLimit both(kLongestInMemory, default_pipe_memory(64), {.ranks = 64, .per_host = 32, .memory = true});
  const SliceLimit memory(kLongestInMemory, default_pipe_memory(64), {.ranks = 64, .per_host = 64, .memory = true});
  EXPECT_GT(both.over(63), memory.over(63));
}

// Bruck's messages among thousands hold thousands of chunks.
TEST(SliceLimit, LeavesRoomForEveryChunkOfAMessage) {
  const SliceLimit limit(kLongestInMemory, 1 << 20, {.ranks = 2000, .per_host = 2000, .memory = true});
  Demand demand;
  demand.pipes = 1999;
  EXPECT_EQ(limit.of(demand), kPage);
  demand.message_chunks = 1000;
  EXPECT_EQ(limit.of(demand), 64'000u);
  const Cut pieces = cut(1, demand.message_chunks, limit.of(demand));
  EXPECT_LE(pieces.window_bytes * 1000, kMessagesInPipe / 2 * pieces.slice_bytes);
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

// Through a chain of ranks a message comes sooner in short slices, which cost more each.
TEST(BestCut, IsShorterOnlyWhereThatSavesAnEighth) {
  constexpr Rank kRanks = 4;
  NetworkModel model;
  model.levels.resize(1);
  model.levels[0].children = kRanks;
  BuildOptions options;
  options.ranks = kRanks;
  const Demand chain = *demand(*find_builder(Collective::kBroadcast, "chain"), options, model);
  int shorter = 0, small_gains = 0;
  for (Picoseconds message = 0; message < 4'000'000; message += 50'000) {
    model.levels[0].cost = {.send = message, .receive = message, .send_byte = 20'000, .receive_byte = 20'000};
    const Sizes call{.bytes = 64 << 10};
    const auto time = [&](size_t slice) { return longest_cut(chain, model, kRanks, call, slice).prediction.total(); };
    const Picoseconds whole = time(kLongestInMemory), least = std::min(time(kShortSlice), time(kShortSlice / 4));
    const bool is_shorter = best_cut(chain, model, kRanks, call, kLongestInMemory).cut.slice_bytes < kLongestInMemory;
    EXPECT_EQ(is_shorter, 8 * least < 7 * whole) << message << " ps a message: " << least << " instead of " << whole;
    shorter += is_shorter ? 1 : 0;
    small_gains += least < whole && !is_shorter ? 1 : 0;
  }
  EXPECT_GT(shorter, 0);
  EXPECT_GT(small_gains, 0);
}

}  // namespace
}  // namespace hocket
