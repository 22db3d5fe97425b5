// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What one thread of a run does: all rows of the table, in step with the threads of all other ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collective.h"
#include "measure.h"
#include "options.h"
#include "outcome.h"
#include "report.h"
#include "team.h"

namespace hocket::perf {

class Run {
 public:
  Run(const Collective& collective, const Options& options, int processes, Team& team);

  // kExitResults when elements were wrong or the bandwidth is below NCCL_TESTS_MIN_BW; known to all ranks.
  Outcome all();

 private:
  Outcome begin();
  Outcome cycle();
  Outcome rows_of(const ElementType& type, const ReduceOp& op, int root);
  Outcome row(const ElementType& type, const ReduceOp& op, int root, size_t size);
  Outcome half(const Job& job, Half& result);
  void add(const Half& half, size_t bytes, bool in_place);
  Outcome end();
  Outcome memory_text(std::string& text);
  Outcome pipes_text(std::string& text);

  const Collective& collective_;
  const Options& options_;
  int processes_;
  Team& team_;
  Bench bench_;
  std::vector<std::unique_ptr<Report>> reports_;  // rank 0's only
  Summary summary_;
  double sum_of_bandwidths_ = 0;
  int halves_ = 0;
  int64_t memory_[3] = {};  // resident bytes: communicators, and then buffers, and then the rest
};

}  // namespace hocket::perf
