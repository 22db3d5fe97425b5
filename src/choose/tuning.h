// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What is known of a machine that bears on choosing: what messages cost, and which algorithms were measured to be best.
// Comes from a file that `hocket tune` wrote, or is built in. Knows no rank and reads no file.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/hierarchy.h"
#include "plan/plan.h"
#include "topology/machine.h"
#include "topology/network_model.h"

namespace hocket {

// Through what messages go: memory or sockets between ranks of one host, or the network between ranks with a host each.
enum class Medium : uint8_t { kMemory, kSocket, kNetwork };

// What was measured to be best for calls of up to so many bytes.
struct MeasuredChoice {
  Collective collective = Collective::kAllReduce;
  Rank ranks = 1;  // exactly
  Medium medium = Medium::kMemory;
  int64_t bytes = 0;
  std::string algorithm;
  friend bool operator==(const MeasuredChoice&, const MeasuredChoice&) = default;
};

// For how long a byte of such a call occupies the busiest link of a topology, at the least.
struct LinkLoad {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;
  Femtoseconds byte = 0;
  friend bool operator==(const LinkLoad&, const LinkLoad&) = default;
};

// What was found on a topology for ranks that sit on its seats (choose/loads.h): routes count where all are of one
// host, rails where these are of several.
struct Routes {
  std::vector<std::vector<Rank>> rings;  // orders of the ranks
  std::vector<std::vector<Rank>> trees;  // every rank's parent; the root has itself
  std::vector<LinkLoad> loads = {};
  std::vector<int32_t> rails = {};  // every rank's; of one host: none
  friend bool operator==(const Routes&, const Routes&) = default;

  bool are_for(Rank ranks) const { return !rings.empty() && rings[0].size() == static_cast<size_t>(ranks); }
};

// The same for as many ranks that are numbered otherwise: rank i is what was rank `order[i]`. What was found for
// another number of ranks stays.
Routes renumbered(Routes routes, std::span<const Rank> order);

struct Tuning {
  std::string machine;  // fingerprint of the machine; empty: any
  int32_t cores = 0;    // that ranks of one host share
  LocalCost local;
  MessageCost memory;                // between ranks of one host that share memory
  MessageCost socket;                // between those that do not
  MessageCost network;               // between hosts
  std::vector<MeasuredChoice> best;  // ascending in bytes for each collective, number of ranks and kind of message
  Routes routes;                     // none: no topology was searched
  friend bool operator==(const Tuning&, const Tuning&) = default;
};

// How the ranks of a communicator lie: equal on all of them.
struct Placement {
  Rank ranks = 1;
  Rank per_host = 1;                          // most on one host
  bool memory = true;                         // ranks of one host share memory
  std::vector<std::vector<Rank>> hosts = {};  // their ranks; empty: per_host ranks each, numbered through
  std::vector<int32_t> rails = {};            // of which each rank is; empty: there are none
};

// Through what all their messages go; nothing: through one thing inside hosts and another between them.
std::optional<Medium> medium_of(const Placement& placement);

// Of a machine of two cores, which share a cache or are farther from each other; what a file says replaces it.
enum class CoreDistance : uint8_t { kNear, kFar };
const Tuning& built_in_tuning(CoreDistance distance = CoreDistance::kNear);

NetworkModel network_of(const Tuning& tuning, const Placement& placement);
// Hosts as groups, whose members stand in the order of their rails: groups across hosts go by these. Nothing where
// there is one host only, or one rank on each.
std::optional<Hierarchy> hierarchy_of(const Placement& placement);
// The rings that a search found for such ranks; else one that goes host by host; none where the ring of the ranks'
// numbers does.
Routes routes_of(const Tuning& tuning, const Placement& placement);

// Machines that are tuned alike have the same text.
std::string fingerprint(const Machine& machine);

inline constexpr size_t kMaxTuningText = 4096;
inline constexpr size_t kMaxMeasuredChoices = 512;

// At most kMaxTuningText characters unless routes take more; measured choices beyond are left out.
std::string to_text(const Tuning& tuning);
// Refuses what is cut short, of another version, or names what does not exist. Failures name the line.
Result<Tuning> parse_tuning(std::string_view text);

}  // namespace hocket
