// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <algorithm>

#include "choose/choose.h"

namespace hocket {
namespace {

// Slices of this size stay in a core's cache between the copy in and the copy out.
constexpr size_t kSliceBytes = size_t{128} << 10;
constexpr size_t kGrain = 64;
// Messages that a pipe holds for one step: enough to keep both ends busy, few enough to stay in cache.
constexpr size_t kSlicesPerPass = 4;
// What peers read straight out of each other's buffers takes no room in pipes: one pass.
constexpr size_t kWhole = size_t{1} << 62;

}  // namespace

Cut cut(const Plan& plan, size_t max_message) {
  Cut result = cut(plan.depth, plan.message_chunks, max_message);
  const Builder* builder = find_builder(plan.collective, plan.algorithm);
  if (builder != nullptr && builder->uses_windows()) result.window_bytes = kWhole;
  return result;
}

Cut cut(int32_t depth, int32_t message_chunks, size_t max_message) {
  Cut result;
  result.slice_bytes = std::min(kSliceBytes, max_message / kGrain * kGrain);
  const size_t per_message = std::max<size_t>(1, kSlicesPerPass / static_cast<size_t>(depth));
  const size_t window = per_message * result.slice_bytes / static_cast<size_t>(message_chunks);
  result.window_bytes = std::max(kGrain, window / kGrain * kGrain);
  return result;
}

}  // namespace hocket
