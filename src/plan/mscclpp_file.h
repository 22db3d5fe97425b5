// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// MSCCL++'s JSON as it stands in the file, numbers checked and names of channels and buffers followed to what they
// mean; see plan/mscclpp.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/holdings.h"
#include "plan/plan.h"

namespace hocket::mscclpp {

enum class Action : uint8_t {
  kMove,     // every source to its destination, or one to all
  kCombine,  // all sources to all destinations
  kSignal,
  kWait,
  kBarrier,  // of some thread blocks of a GPU
  kNothing,
};

// Chunks of some GPU's buffer.
struct Span {
  Rank gpu = 0;
  plan::Run run;
  bool packets = false;  // each with a flag: a reader waits for its writer
};

struct Operation {
  std::string name;  // as the file spells it
  Action action = Action::kNothing;
  bool signals = false;  // when it has moved what it moves
  std::vector<Span> sources;
  std::vector<Span> destinations;
  std::vector<int32_t> channels;  // of the GPU
  int32_t barrier = 0;
  int32_t blocks = 0;  // that meet at the barrier
};

struct Channel {
  Rank peer = 0;
  int32_t there = 0;  // the number of the same channel on the peer; -1: there is none
};

struct Gpu {
  int32_t input_chunks = 0;
  int32_t output_chunks = 0;
  int32_t scratch_chunks = 0;
  std::vector<Channel> channels;
  std::vector<std::vector<Operation>> blocks;
};

struct Algorithm {
  std::string name;
  Collective collective = Collective::kAllReduce;
  bool in_place = false;
  std::vector<Gpu> gpus;
};

inline constexpr int32_t kMaxBlocks = 1024;  // of all GPUs

Result<Algorithm> parse(std::string_view json);

// What is wrong with an algorithm.
Status refused(std::string_view reason);

}  // namespace hocket::mscclpp
