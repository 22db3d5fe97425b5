// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Recursive halving: in round k, ranks whose numbers differ in the k-th highest bit exchange the halves of what they
// still hold. Powers of two only; operands combine out of rank order.
#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::recursive_halving {

bool fits(const BuildOptions& options) { return fits_one_lane(options) && is_power_of_two(options.ranks); }

Plan reduce_scatter(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kReduceScatter, "recursive_halving", options);
  Plan plan = begin(Collective::kReduceScatter, "recursive_halving", options);
  plan.send_chunks = options.ranks;
  plan.scratch_chunks = options.ranks > 2 ? options.ranks : 0;
  plan.message_chunks = options.ranks / 2;
  for (Rank half = options.ranks / 2; half >= 1; half /= 2) {
    const bool fresh = half == options.ranks / 2;
    const Buffer held = fresh ? Buffer::kSend : Buffer::kScratch;
    const Rank peer = options.rank ^ half;
    const Rank keep = options.rank & ~(half - 1);  // first chunk of the half that stays with us
    Place given = chunks(held, keep ^ half, half);
    Place kept = chunks(held, keep, half);
    given.first = kept.first = fresh;
    add(plan.lanes[0], {to(peer)}, {given});
    add(plan.lanes[0], {half == 1 ? recv(0) : scratch(keep, half)}, {from(peer), kept}).last = half == 1;
  }
  return plan;
}

}  // namespace hocket::plan::recursive_halving
