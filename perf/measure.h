// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One half of a row: the same call again and again, timed between barriers as nccl-tests does, then calls on fresh data
// of which every element is compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective.h"
#include "element.h"
#include "options.h"
#include "outcome.h"
#include "promise.h"
#include "team.h"

namespace hocket::perf {

struct Measurement {
  double seconds = 0;        // per call, over the ranks as -a says
  double issue_seconds = 0;  // of that, until the call was issued
  bool checked = false;
  int64_t wrong = 0;                            // elements, over all ranks
  Coded coded;                                  // --codec
  std::vector<double> iterations;               // seconds per call in each iteration, the slowest rank's
  std::vector<std::vector<double>> of_process;  // the same within each process
};

// What is measured: equal on all ranks.
struct Job {
  const Collective& collective;
  const ElementType& type;
  const ReduceOp& op;
  int root = -1;
  size_t size = 0;  // bytes asked for
  bool in_place = false;
};

class Bench {
 public:
  Bench(const Options& options, Team& team, int processes) : options_(options), team_(team), processes_(processes) {}

  // Calls of every second size, as a warm-up.
  Outcome warm_up(const Job& job);
  Outcome measure(const Job& job, Measurement& result);

  // The counts of one call of any rank, and its size as the table shows it.
  Shape shape_of(const Job& job) const;
  size_t bytes_of(const Job& job) const;

 private:
  struct Prepared;

  Outcome prepare(const Job& job, Prepared& prepared);
  void release(Prepared& prepared);
  Outcome issue(const Prepared& prepared, size_t iteration);
  Outcome issue_all(const Prepared& prepared);
  Outcome time(Prepared& prepared, Measurement& result);
  Outcome iterate(const Prepared& prepared, int iteration, std::vector<double>& times, double& seconds);
  Outcome gather_iterations(const std::vector<double>& times, Measurement& result);
  Outcome check(const Prepared& prepared, Measurement& result);
  Outcome check_data(const Prepared& prepared, uint64_t seed, Measurement& result);
  size_t wrong_of(const Prepared& prepared, const Role& role, const std::byte* received, uint64_t seed, Coded& coded);
  Outcome check_barrier(uint64_t seed, int64_t& wrong);

  const Options& options_;
  Team& team_;
  int processes_;
  uint64_t seed_ = 0;
};

}  // namespace hocket::perf
