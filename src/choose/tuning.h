// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What is known of a machine that bears on choosing: what messages cost, and which algorithms were measured to be best.
// Comes from a file that `hocket tune` wrote, or is built in. Knows no rank and reads no file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/hierarchy.h"
#include "plan/plan.h"
#include "topology/machine.h"
#include "topology/network_model.h"

namespace hocket {

// What was measured to be best for calls of up to so many bytes.
struct MeasuredChoice {
  Collective collective = Collective::kAllReduce;
  Rank ranks = 1;      // exactly
  bool memory = true;  // messages go through memory
  int64_t bytes = 0;
  std::string algorithm;
  friend bool operator==(const MeasuredChoice&, const MeasuredChoice&) = default;
};

struct Tuning {
  std::string machine;  // fingerprint of the machine; empty: any
  int32_t cores = 0;    // that ranks of one host share
  LocalCost local;
  MessageCost memory;                // between ranks of one host that share memory
  MessageCost socket;                // between those that do not
  MessageCost network;               // between hosts
  std::vector<MeasuredChoice> best;  // ascending in bytes for each collective, number of ranks and kind of message
  friend bool operator==(const Tuning&, const Tuning&) = default;
};

// How the ranks of a communicator lie: equal on all of them.
struct Placement {
  Rank ranks = 1;
  Rank per_host = 1;                          // most on one host
  bool memory = true;                         // ranks of one host share memory
  std::vector<std::vector<Rank>> hosts = {};  // their ranks; empty: per_host ranks each, numbered through
};

// Of a machine of two cores; what a file says replaces it.
const Tuning& built_in_tuning();

NetworkModel network_of(const Tuning& tuning, const Placement& placement);
// Hosts as groups; nothing where there is one host only, or one rank on each.
std::optional<Hierarchy> hierarchy_of(const Placement& placement);
// A ring that goes host by host; none where the ring of the ranks' numbers does.
std::vector<std::vector<Rank>> routes_of(const Placement& placement);

// Machines that are tuned alike have the same text.
std::string fingerprint(const Machine& machine);

inline constexpr size_t kMaxTuningText = 4096;
inline constexpr size_t kMaxMeasuredChoices = 512;

// At most kMaxTuningText characters; measured choices beyond are left out.
std::string to_text(const Tuning& tuning);
// Refuses what is cut short, of another version, or names what does not exist. Failures name the line.
Result<Tuning> parse_tuning(std::string_view text);

}  // namespace hocket
