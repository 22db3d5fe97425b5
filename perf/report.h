// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a run has to say, and those who write it down: rank 0 hands the same facts to each of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "measure.h"
#include "options.h"

namespace hocket::perf {

struct RankInfo {
  int rank = 0;
  int pid = 0;
  std::string host;
  int device = 0;  // the rank's number on its host
  std::string processor;
};

struct BuildFact {
  std::string name, version, note;
  bool found = false;
};

struct RunInfo {
  std::string program;
  int header_version = 0, library_version = 0;
  int processes = 1;
  std::vector<RankInfo> ranks;
  std::vector<BuildFact> build;
  std::string core_latency;  // before the first row
};

struct Half {
  double time_us = 0;
  double algorithm_bandwidth = 0;  // GB/s, GB = 1e9 bytes
  double bus_bandwidth = 0;
  Measurement measurement;
};

struct Row {
  size_t bytes = 0;
  size_t count = 0;
  std::string_view type;
  std::string_view op;  // "none" where nothing is reduced
  int root = -1;
  Half out_of_place, in_place;
};

struct Summary {
  int64_t wrong_measurements = 0;
  double average_bus_bandwidth = 0;
  double demanded_bus_bandwidth = -1;  // NCCL_TESTS_MIN_BW; -1: none
  std::string memory;                  // -M; empty: not asked for
  double best_bus_bandwidth = 0;
  size_t best_bytes = 0;
  bool best_in_place = false;
  std::string core_latency;  // after the last row

  bool fast_enough() const { return average_bus_bandwidth >= demanded_bus_bandwidth * 0.9; }
};

class Report {
 public:
  virtual ~Report() = default;
  virtual void begin(const RunInfo& run) = 0;
  virtual void before_row(std::string_view what) = 0;  // the row that is being measured
  virtual void row(const Row& row) = 0;
  virtual void end(const Summary& summary) = 0;
};

// nccl-tests' table on standard output, and a line on a terminal while a long run is under way.
std::unique_ptr<Report> make_table(const Options& options);
// nccl-tests' JSON. Empty with a message on standard output when the file cannot be made.
std::unique_ptr<Report> make_json(const Options& options);
// One line per half row. Empty, with a message, like make_json.
std::unique_ptr<Report> make_csv(const Options& options);

// A number in at most `width` characters with as many decimals, up to two, as fit.
std::string fitted(double value, int width);
// "2026-01-31 23:59:59", local time.
std::string time_of_day();

}  // namespace hocket::perf
