// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pairwise exchange: in round i, ranks whose sum is i (modulo their number) exchange their chunks, so that each rank
// talks to one other at a time and a chunk is overwritten only after it has been sent.
#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::pairwise {

Plan all_to_all(const BuildOptions& options) {
  Plan plan = begin(Collective::kAllToAll, "pairwise", options, 1, options.ranks);
  Lane& lane = plan.lanes[0];
  for (Rank round = 0; round < options.ranks; ++round) {
    const Rank peer = wrapped(round - options.rank, options.ranks);
    if (peer == options.rank) {
      add(lane, {recv(peer)}, {send(peer)});
    } else {
      add(lane, {to(peer)}, {send(peer)});
      add(lane, {recv(peer)}, {from(peer)});
    }
  }
  return plan;
}

}  // namespace hocket::plan::pairwise
