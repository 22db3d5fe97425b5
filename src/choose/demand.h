// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What an algorithm asks of processors and links, whatever the number of bytes: counted from the plans of a few ranks,
// so that it takes no longer where there are many. Knows no time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/builders.h"
#include "topology/network_model.h"

namespace hocket {

// Of one rank in one call; chunks are counted once for each time that they are moved.
struct RankDemand {
  struct Traffic {
    int64_t messages_sent = 0;
    int64_t messages_received = 0;
    int64_t chunks_sent = 0;
    int64_t chunks_received = 0;
    int64_t chunks_one_way = 0;  // sent on a lane to a peer beyond what it sends back, whenever that is
    int64_t chunks_of_pipe = 0;  // most that one lane sends to one peer, where that bounds anything
  };
  std::array<Traffic, kMaxLevels> levels{};  // by the innermost level that holds both ends
  int64_t steps = 0;
  int64_t chunks_placed = 0;    // read from the caller's buffers for the first time, or written
  int64_t chunks_reread = 0;    // read again, or from what was received or kept
  int64_t chunks_combined = 0;  // for each source beyond the first
  int64_t chunks_encoded = 0;   // by the call's codec ...
  int64_t chunks_decoded = 0;   // ... and added

  RankDemand& operator+=(const RankDemand& other);
  RankDemand& operator*=(int64_t times);
  // Each number at least the other's.
  bool exceeds(const RankDemand& other) const;
};

struct Demand {
  RankDemand busiest;             // for each number that of the rank which has most
  RankDemand average;             // of the ranks looked at, times `ranks_seen`
  std::vector<RankDemand> heavy;  // ranks that no other one exceeds in everything
  int32_t ranks_seen = 0;
  // That the ranks of one host together send to others, or receive from them; -1: too many to count.
  int64_t host_chunks = -1;
  int32_t rounds = 0;          // messages of the longest chain
  int32_t rounds_of_rank = 0;  // ... and how many of them, at the most, one rank sends, or receives
  int32_t chunks = 1;          // into which a caller's larger buffer is cut
  int32_t parts = 1;           // ... or each block of it
  int32_t message_chunks = 1;
  int32_t depth = 1;
  int32_t lanes = 1;
  int32_t most_lanes = 1;     // over which the plans can be split
  int32_t peers = 0;          // to which a rank sends, or the root of rooted collectives
  int32_t pipes = 0;          // over which it does, or receives, as each lane has its own
  size_t plain_levels = 0;    // whose messages carry values, also in a call that has a codec: the innermost
  bool in_line = false;       // messages go along rings or trees (goes_in_line)
  bool may_be_bound = false;  // to the fast path: one lane, no scratch memory, steps of one chunk
  bool divides = false;       // the chunks are parts of what the caller counts, not each as long
};

// Nothing where the length of the algorithm's longest chain is not known.
std::optional<int32_t> rounds(Collective collective, std::string_view algorithm, Rank ranks);

// The same of plans on trees, where every rank's parent is told.
std::optional<int32_t> tree_rounds(Collective collective, std::span<const std::vector<Rank>> trees, Rank root);

// The same of plans over levels.
std::optional<int32_t> hierarchical_rounds(Collective collective, const BuildOptions& options);

// The same of a builder that fits the options.
std::optional<int32_t> rounds(const Builder& builder, const BuildOptions& options);

// Every rank sends to every other one.
bool sends_to_all(Collective collective, std::string_view algorithm);

// Along rings or trees: in the mean, a rank hears from fewer than two others.
bool goes_in_line(Collective collective, std::string_view algorithm);

// Of so many rounds, in how many one rank sends at the most, and in how many it receives: along a tree to its root and
// back, in half of them.
int32_t rounds_of_rank(Collective collective, std::string_view algorithm, int32_t rounds);

// Of a builder that fits the options; nothing where the length of its chain is not known.
std::optional<Demand> demand(const Builder& builder, const BuildOptions& options, const NetworkModel& model);

// Chunks that each message of the step carries.
int64_t chunks_moved(const Step& step);

// Callers count all of the buffer, not a block of it.
bool divides(Collective collective);

// Of one message, or a copy, counted from the plan of its sender or its receiver. Only collectives are bound to the
// fast path.
Demand transfer_demand(const Plan& plan, const NetworkModel& model);

// The same of its plans over several lanes (plan/lanes.h).
Demand over_lanes(Demand demand, int32_t lanes);

}  // namespace hocket
