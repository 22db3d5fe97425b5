// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans for networks that no published algorithm was made for: irregular ones, and those that have lost links. Time
// goes from one free wire to the next, and each takes a block that its end lacks, the one that most others lack, too
// (greedy matching as in TACOS: W. Won et al., "Topology-Aware Collective Algorithm Synthesizer"). It is tried with
// blocks whole and cut into parts, and with parts that keep to rings and trees that a search has found; the quickest
// counts. Reductions are that backwards. Quick: 128 ranks take about a second.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket {

// What several wires go through, one block at a time: a GPU's link to a switch, a switch's link to a GPU.
struct Port {
  int32_t number = 0;
  int64_t time = 1;  // for which a block occupies it
};

// Carries blocks from one rank to another, one after the other; a block takes `time`, in units of any kind.
struct Wire {
  Rank from = 0;
  Rank to = 0;
  int64_t time = 1;
  std::vector<Port> ports = {};  // that it shares with others
};

// What a search has found on those wires; plans may follow it.
struct FoundRoutes {
  std::span<const std::vector<Rank>> rings = {};  // orders of all ranks
  std::span<const std::vector<Rank>> trees = {};  // every rank's parent; the root has itself
};

struct Synthesis {
  std::vector<Plan> plans;  // of all ranks
  double time = 0;          // of all transfers, in the wires' unit
  int32_t parts = 1;        // of each rank's block
  std::string along;        // "rings", "trees", or nothing: what its parts keep to
};

inline constexpr Rank kMaxSynthesised = 256;
inline constexpr int32_t kMaxWiresBeside = 8;         // between the same two ranks
inline constexpr int32_t kMaxPorts = 1 << 22;         // numbers are below
inline constexpr int32_t kMaxSynthesisedParts = 512;  // of all ranks together, unless each has one

// For all_gather, reduce_scatter and all_reduce, whose blocks are the ranks' parts. Fails where some rank does not
// reach another, naming both.
Result<Synthesis> synthesise(Collective collective, Rank ranks, std::span<const Wire> wires,
                             const FoundRoutes& found = {});

}  // namespace hocket
