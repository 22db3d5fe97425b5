// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/cut.h"

#include <algorithm>

#include "plan/short_calls.h"

namespace hocket {
namespace {

constexpr size_t kGrain = 64;
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
