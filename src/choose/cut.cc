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

SliceLimit::SliceLimit(size_t longest, size_t budget, const Placement& placement)
    : longest_(longest), budget_(budget), in_memory_(placement.memory ? placement.per_host - 1 : 0) {}

// A pipe in memory holds what it promises to take, one over sockets a slice, where it is received. Half of the budget
// is for a few pipes whose slices are the longest, of rings, trees and halving; these are among those to all.
size_t SliceLimit::to(int32_t peers, int32_t lanes) const {
  const int32_t in_memory = std::min(peers, in_memory_);
  const auto held = static_cast<size_t>(lanes) *
                    (kMessagesInPipe * static_cast<size_t>(in_memory) + static_cast<size_t>(peers - in_memory));
  const size_t half = budget_ / 2;
  const size_t longest_held = half / kLongestInMemory;
  if (held <= longest_held) return longest_;
  return std::min(longest_, std::max(kPage, half / (held - longest_held) / kPage * kPage));
}

size_t SliceLimit::of_transfers() const { return std::max(to(in_memory_), std::min(longest_, kShortSlice)); }

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
    if (shorter.prediction.total() < best.prediction.total()) best = shorter;
  }
  return best;
}

}  // namespace hocket
