// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How long a call takes by the model, and what of it is owed to what. Whole numbers only: every rank gets the same.
#pragma once

#include <cstdint>
#include <string>

#include "choose/coding_cost.h"
#include "choose/demand.h"
#include "topology/network_model.h"

namespace hocket {

struct Prediction {
  Picoseconds latency = 0;     // of the longest chain of messages
  Picoseconds processor = 0;   // of the busiest rank, or its share of a crowded host's cores
  Picoseconds wire = 0;        // of the busiest port
  Picoseconds fill = 0;        // until the first slice has come to those far down the chain
  size_t busiest_level = 0;    // whose ports those are
  bool by_connection = false;  // one connection of that level takes longer than the port
  bool by_link = false;        // ... or a link of the topology longer than both

  // Processors and wires work at the same time.
  Picoseconds total() const { return latency + (processor > wire ? processor : wire) + fill; }
  // "latency", "processor" or the name of the level whose ports or connections bound it.
  std::string limit(const NetworkModel& model) const;
};

// Of a call of `bytes`, as the caller counts them, whose messages travel in slices and passes of so many bytes.
struct Sizes {
  int64_t bytes = 0;
  int64_t window = INT64_MAX;  // of a chunk
  int64_t slice = INT64_MAX;   // of a message
  Femtoseconds link_byte = 0;  // for which each byte of the call occupies the topology's busiest link
  CodingCost coding = {};
};
Prediction predict(const Demand& demand, const NetworkModel& model, Rank ranks, const Sizes& sizes);

// Less than no call is said to take whose longest chain has so many messages.
Picoseconds least_time(int32_t rounds, const NetworkModel& model);

}  // namespace hocket
