// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans for networks that no published algorithm was made for: irregular ones, and those that have lost links. Time
// goes from one free link to the next, and each takes a block that its end lacks, the one that most others lack, too
// (greedy matching as in TACOS: W. Won et al., "Topology-Aware Collective Algorithm Synthesizer"). Reductions are that
// backwards. Quick: 128 ranks take about a second.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket {

// Carries blocks from one rank to another, one after the other; a block takes `time`, in units of any kind.
struct Wire {
  Rank from = 0;
  Rank to = 0;
  int64_t time = 1;
};

struct Synthesis {
  std::vector<Plan> plans;  // of all ranks
  int64_t time = 0;         // of all transfers, in the wires' unit
};

inline constexpr Rank kMaxSynthesised = 256;
inline constexpr int32_t kMaxWiresBeside = 8;  // between the same two ranks

// For all_gather, reduce_scatter and all_reduce, whose blocks are the ranks' parts. Fails where some rank does not
// reach another, naming both.
Result<Synthesis> synthesise(Collective collective, Rank ranks, std::span<const Wire> wires);

}  // namespace hocket
