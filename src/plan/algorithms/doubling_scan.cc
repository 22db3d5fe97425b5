// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Scan by doubling: in round k, every rank sends the sum of the 2^k operands that end with its own to the rank 2^k
// after it. An exclusive scan moves the operands one rank on and scans them without rank 0.
#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::doubling_scan {
namespace {

// Scans over the ranks from `origin` on; our operand is `own`.
void scan_from(Lane& lane, const BuildOptions& options, Rank origin, const Place& own) {
  const int64_t position = options.rank - origin;
  const int64_t count = options.ranks - origin;
  Places sources{own};
  for (int64_t distance = 1;; distance *= 2) {
    const bool complete = distance > position;
    const bool combines = sources.size() > 1;
    Places destinations;
    if (combines || (complete && own.buffer != Buffer::kRecv)) destinations.push_back(recv(0));
    for (int64_t reach = distance; position + reach < count && (complete || reach == distance); reach *= 2) {
      destinations.push_back(to(static_cast<Rank>(options.rank + reach)));
    }
    if (!destinations.empty()) add(lane, std::move(destinations), sources);
    if (complete) return;
    sources = {from(static_cast<Rank>(options.rank - distance)), combines ? recv(0) : own};
  }
}

}  // namespace

Plan scan(const BuildOptions& options) {
  Plan plan = begin(Collective::kScan, "doubling", options);
  scan_from(plan.lanes[0], options, 0, first(send(0)));
  return plan;
}

Plan exscan(const BuildOptions& options) {
  Plan plan = begin(Collective::kExScan, "doubling", options);
  Lane& lane = plan.lanes[0];
  if (options.rank + 1 < options.ranks) add(lane, {to(options.rank + 1)}, {first(send(0))});
  if (options.rank == 0) return plan;
  add(lane, {recv(0)}, {from(options.rank - 1)});
  scan_from(lane, options, 1, recv(0));
  return plan;
}

}  // namespace hocket::plan::doubling_scan
