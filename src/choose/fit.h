// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Calibration: the costs with which the model says best what was measured. Done once, by `hocket tune`; what comes out
// are whole numbers, and only those are ever shared.
#pragma once

#include <span>

#include "choose/tuning.h"

namespace hocket {

// A call of ranks on one host that was measured.
struct Sample {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;
  Rank ranks = 1;
  bool memory = true;
  int64_t bytes = 0;
  Picoseconds time = 0;
};

// What the model says of a sample; 0: it does not know the algorithm.
std::vector<Picoseconds> predict_all(const Tuning& tuning, std::span<const Sample> samples, size_t max_message);

// `start` with those costs changed that the samples bear on.
Tuning fit(const Tuning& start, std::span<const Sample> samples, size_t max_message);

}  // namespace hocket
