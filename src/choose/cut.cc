// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/cut.h"

#include <algorithm>
#include <bit>

#include "plan/short_calls.h"

namespace hocket {
namespace {

constexpr size_t kGrain = 64;
constexpr size_t kPage = 4096;
// Messages that a pipe holds for one step: enough to keep both ends busy, few enough to stay in cache.
constexpr size_t kSlicesPerPass = 4;

// Shorter slices are foretold to save this part of the time at least, of what the longer ones take: between two ranks
// in memory calls took longer with them where it was less (a broadcast of 32 KiB by 8 KiB 1.3 to 1.6 times as long).
constexpr Picoseconds kWorthCutting = 8;

// Packets of the loopback hold 65,483 bytes; these slices, with a header and any padding in front, fill four or two of
// them: with one more packet for a few bytes it takes longer (docs/decisions/0036, 0140).
constexpr size_t kLongestOnLoopback = 261'824;
constexpr size_t kLongestElsewhere = 130'816;

static_assert(kLongestBound == kLongestInMemory, "what is not cut in memory may take the fast path");

}  // namespace

size_t longest_slice(std::optional<Medium> medium) {
  if (medium == Medium::kMemory) return kLongestInMemory;
  return medium == Medium::kSocket ? kLongestOnLoopback : kLongestElsewhere;
}

size_t default_pipe_memory(Rank ranks) {
  const auto others = static_cast<uint32_t>(std::max(1, ranks - 1));
  return (size_t{4} << 20) * static_cast<size_t>(std::bit_width(others));
}

size_t slice_memory(size_t pipe_memory, bool has_other_hosts) {
  return has_other_hosts ? pipe_memory - pipe_memory / 2 : pipe_memory;
}

SliceLimit::SliceLimit(size_t longest, size_t budget, const Placement& placement)
    : longest_(longest),
      budget_(budget),
      near_(placement.memory ? static_cast<size_t>(placement.per_host - 1) : 0),
      peers_(std::max<size_t>(1, static_cast<size_t>(placement.ranks - 1))) {}

// A pipe in memory holds what it promises to take, one over sockets a slice, where it is received. Half of the budget
// is for a few pipes whose slices are the longest, of rings, trees and halving; these are among those to all.
size_t SliceLimit::with(size_t in_memory, size_t over_sockets) const {
  const size_t half = budget_ / 2;
  const size_t longest_held = half / longest_;
  const size_t held = kMessagesInPipe * in_memory + over_sockets;
  if (budget_ == SIZE_MAX || held <= longest_held) return longest_;
  const size_t left = half - std::min(half, kShortInPipe * in_memory);
  return std::min(longest_, std::max(kPage, left / (held - longest_held) / kPage * kPage));
}

// As many of them are in memory as of all that there can be.
size_t SliceLimit::over(int32_t pipes) const {
  const auto all = static_cast<size_t>(pipes);
  const size_t in_memory = (all * near_ + peers_ - 1) / peers_;
  return with(in_memory, all - in_memory);
}

size_t SliceLimit::of(const Demand& demand) const {
  return std::max(over(demand.pipes), std::min(longest_, kGrain * static_cast<size_t>(demand.message_chunks)));
}

size_t SliceLimit::of_transfers() const { return std::max(with(near_, 0), std::min(longest_, kShortSlice)); }

Cut cut(const Plan& plan, size_t max_message) {
  Cut result = cut(plan.depth, plan.message_chunks, max_message);
  const Builder* builder = find_builder(plan.collective, plan.algorithm);
  if (builder != nullptr && builder->uses_windows()) result.window_bytes = kWhole;
  return result;
}

Cut cut(int32_t depth, int32_t message_chunks, size_t max_message) {
  if (max_message == kWhole) return {kWhole, kWhole};
  Cut result;
  result.slice_bytes = max_message / kGrain * kGrain;
  const size_t per_message = std::max<size_t>(1, kSlicesPerPass / static_cast<size_t>(depth));
  const size_t window = per_message * result.slice_bytes / static_cast<size_t>(message_chunks);
  result.window_bytes = std::max(kGrain, window / kGrain * kGrain);
  return result;
}

Timed longest_cut(const Demand& demand, const NetworkModel& model, Rank ranks, Sizes call, size_t max_message) {
  const Cut pieces = cut(demand.depth, demand.message_chunks, max_message);
  call.window = static_cast<int64_t>(pieces.window_bytes);
  call.slice = static_cast<int64_t>(pieces.slice_bytes);
  return {pieces, predict(demand, model, ranks, call)};
}

Timed best_cut(const Demand& demand, const NetworkModel& model, Rank ranks, Sizes call, size_t max_message) {
  Timed best = longest_cut(demand, model, ranks, call, max_message);
  if (max_message == kWhole) return best;
  const int64_t chunk = call.bytes / (demand.divides ? demand.chunks : demand.parts);
  for (const size_t slice : {kShortSlice, kShortSlice / 4}) {
    if (slice >= std::min(static_cast<size_t>(chunk), best.cut.slice_bytes)) continue;
    const Timed shorter = longest_cut(demand, model, ranks, call, slice);
    if (shorter.prediction.total() < best.prediction.total() / kWorthCutting * (kWorthCutting - 1)) best = shorter;
  }
  return best;
}

}  // namespace hocket
