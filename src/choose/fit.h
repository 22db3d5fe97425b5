// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Calibration: the costs with which the model says best what was measured. Done once, by `hocket tune`; what comes out
// are whole numbers, and only those are ever shared.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "choose/tuning.h"

namespace hocket {

// What messages through it cost.
MessageCost& cost_of(Tuning& tuning, Medium medium);

// How ranks lie that have nothing else.
Placement placement_over(Medium medium, Rank ranks);

// A call that was measured.
struct Sample {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;
  Rank ranks = 1;
  Medium medium = Medium::kMemory;
  int64_t bytes = 0;
  Picoseconds time = 0;
};

// What the model says of a sample; 0: it does not know the algorithm.
std::vector<Picoseconds> predict_all(const Tuning& tuning, std::span<const Sample> samples, size_t max_message);

// `start` with those costs changed that the samples bear on. Of a few calls only messages' costs can be told: with all
// of them free, a rank's own costs are bent until the few are met, and other calls are missed (docs/choosing.md).
enum class Fitted : uint8_t { kAll, kMessages };
Tuning fit(const Tuning& start, std::span<const Sample> samples, size_t max_message, Fitted fitted = Fitted::kAll);
// From several beginnings, of which one may lead further than another.
Tuning fit_best(std::span<const Tuning> starts, std::span<const Sample> samples, size_t max_message,
                Fitted fitted = Fitted::kAll);
// Where the search for costs within a host may begin: as it is, and as if its cores were far from each other. What a
// port costs has nothing to do with cores, and stays. Sockets of one host may go through ports too, those of its
// containers, of which nobody tells: there it may also begin with a network's.
std::vector<Tuning> host_beginnings(const Tuning& start, Medium medium);

}  // namespace hocket
