// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Dissemination barrier: in round k, every rank signals the one 2^k after it and awaits the one 2^k before it.
#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::dissemination {

Plan barrier(const BuildOptions& options) {
  Plan plan = begin(Collective::kBarrier, "dissemination", options);
  Places awaited;
  for (int64_t distance = 1; distance < options.ranks; distance *= 2) {
    add(plan.lanes[0], {to(shifted(options, distance))}, awaited);
    awaited = {from(shifted(options, -distance))};
  }
  if (!awaited.empty()) add(plan.lanes[0], {}, awaited);
  return plan;
}

}  // namespace hocket::plan::dissemination
