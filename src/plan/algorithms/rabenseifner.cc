// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Rabenseifner: halving and doubling between members whose numbers differ in one bit, the lowest first. Groups grow
// from neighbours, so that operands stay in rank order.
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/halving.h"

namespace hocket::plan::rabenseifner {
namespace {

int32_t peer(int32_t member, int32_t /*members*/, int32_t round) { return member ^ (1 << round); }
bool upper(int32_t member, int32_t /*members*/, int32_t round) { return (member >> round & 1) != 0; }

}  // namespace

Plan all_reduce(const BuildOptions& options) {
  return halving::all_reduce("rabenseifner", options, {.peer = peer, .upper = upper});
}

}  // namespace hocket::plan::rabenseifner
