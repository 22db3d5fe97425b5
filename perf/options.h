// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The command line: nccl-tests' flags and ours, checked and explained.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "collective.h"
#include "element.h"
#include "outcome.h"
#include "sizes.h"

namespace hocket::perf {

enum class Average : int { kRankZero = 0, kMean = 1, kMinimum = 2, kMaximum = 3 };
enum class Blocking : int { kNone = 0, kWaitAndBarrier = 1, kWait = 2, kBarrierApart = 3 };

enum class Registration : int { kNone = 0, kLocal = 1, kSymmetric = 2 };

struct Options {
  int threads = 1;
  int ranks_per_thread = 1;
  int processes = 0;  // --ranks: to be started here; 0: whoever started this process knows
  Sweep sweep{.first = 32u << 20, .last = 32u << 20, .step = 1u << 20};
  int iterations = 20;
  int warmup = 1;
  int aggregate = 1;
  int cycles = 1;  // 0: for ever
  Average average = Average::kMean;
  bool per_iteration = false;
  int skip = 0;
  bool percentiles = false;
  bool parallel_init = false;
  int checks = 1;
  std::vector<const ReduceOp*> ops;
  std::vector<const ElementType*> types;
  int root = 0;  // -1: all, one after the other
  Blocking blocking = Blocking::kNone;
  bool cpu_time = false;
  bool timestamps = false;
  std::string json_file;
  std::string csv_file;
  int timeout_seconds = 0;
  int unalign = 0;  // elements
  Registration registration = Registration::kNone;
  bool memory = false;
  bool queue = false;
  bool cold = false;
  bool list_algorithms = false;
  std::string codec;  // of all_reduce; empty: none
  Traffic traffic;
  std::vector<std::string> ignored;    // flags that mean nothing for host memory
  std::vector<std::string> arguments;  // the whole command line

  bool times_each_iteration() const { return per_iteration || percentiles; }
  int64_t timeout_ms() const { return int64_t{1000} * timeout_seconds; }
};

// What the command line asks for, or how the program ends without doing more: the help text comes with kExitOk.
struct Parsed {
  std::optional<Options> options;
  Outcome end;
};
Parsed parse_options(const Collective& collective, int argc, const char* const* argv);

}  // namespace hocket::perf
