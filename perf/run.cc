// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "host.h"
#include "latency_probe.h"

namespace hocket::perf {
namespace {

constexpr size_t kMostAlignment = 8;  // bytes of the largest element

bool possible(const Collective& collective, const ElementType& type, const ReduceOp& op) {
  return !collective.reduces || !op.integers_only || type.kind != Kind::kFloat;
}

double demanded_bandwidth() {
  const char* text = std::getenv("NCCL_TESTS_MIN_BW");
  return text == nullptr ? -1 : std::atof(text);
}

// The host as the library sees it: HOCKET_HOST_ID makes several of one.
std::string host_label() {
  const char* part = std::getenv("HOCKET_HOST_ID");
  return part == nullptr || *part == '\0' ? host_name() : fmt::format("{}/{}", host_name(), part);
}

// A rank's line of the header travels as "pid host processor".
std::string introduction() { return fmt::format("{} {} {}", getpid(), host_label(), processor_name()); }

std::vector<RankInfo> introduced(const std::vector<std::string>& lines) {
  std::vector<RankInfo> ranks;
  std::map<std::string, int> on_host;
  for (const std::string& line : lines) {
    RankInfo& info = ranks.emplace_back();
    info.rank = static_cast<int>(ranks.size()) - 1;
    std::istringstream words(line);
    words >> info.pid >> info.host >> std::ws;
    std::getline(words, info.processor);
    info.device = on_host[info.host]++;
  }
  return ranks;
}

std::vector<BuildFact> build_facts() {
  const hocketBuildInfo_t* entries = nullptr;
  int count = 0;
  std::vector<BuildFact> facts;
  if (hocketGetBuildInfo(&entries, &count) != hocketSuccess) return facts;
  for (int i = 0; i < count; ++i) {
    facts.push_back({entries[i].name, entries[i].version, entries[i].note, entries[i].found != 0});
  }
  return facts;
}

}  // namespace

Run::Run(const Collective& collective, const Options& options, int processes, Team& team)
    : collective_(collective), options_(options), processes_(processes), team_(team), bench_(options, team, processes) {
  summary_.demanded_bus_bandwidth = demanded_bandwidth();
}

Outcome Run::begin() {
  HOCKET_PERF_TRY(team_.meet(options_.timeout_ms()));
  memory_[0] = resident_bytes();
  const size_t buffer_bytes = options_.sweep.last + static_cast<size_t>(options_.unalign) * kMostAlignment;
  HOCKET_PERF_TRY(team_.prepare(buffer_bytes, options_.registration, options_.queue));
  memory_[1] = resident_bytes();
  std::vector<std::string> lines;
  HOCKET_PERF_TRY(team_.gather(introduction(), lines));
  if (!team_.has_rank_zero()) return {};
  if (!options_.json_file.empty()) reports_.push_back(make_json(options_));
  if (!options_.csv_file.empty()) reports_.push_back(make_csv(options_));
  std::erase(reports_, nullptr);
  reports_.insert(reports_.begin(), make_table(options_));
  RunInfo info{.program = std::string(collective_.program),
               .header_version = HOCKET_VERSION_CODE,
               .processes = processes_,
               .ranks = introduced(lines),
               .build = build_facts(),
               .core_latency = to_text(probe_latency())};
  hocketGetVersion(&info.library_version);
  for (const auto& report : reports_) report->begin(info);
  return {};
}

Outcome Run::half(const Job& job, Half& result) {
  HOCKET_PERF_TRY(bench_.measure(job, result.measurement));
  const Measurement& measured = result.measurement;
  result.time_us = (options_.cpu_time ? measured.issue_seconds : measured.seconds) * 1e6;
  if (measured.seconds > 0) {
    result.algorithm_bandwidth = static_cast<double>(bench_.bytes_of(job)) / 1e9 / measured.seconds;
  }
  result.bus_bandwidth = result.algorithm_bandwidth * collective_.bus_factor(team_.ranks());
  return {};
}

void Run::add(const Half& half, size_t bytes, bool in_place) {
  sum_of_bandwidths_ += half.bus_bandwidth;
  ++halves_;
  if (half.measurement.wrong != 0) ++summary_.wrong_measurements;
  if (halves_ > 1 && half.bus_bandwidth <= summary_.best_bus_bandwidth) return;
  summary_.best_bus_bandwidth = half.bus_bandwidth;
  summary_.best_bytes = bytes;
  summary_.best_in_place = in_place && collective_.in_place;
}

Outcome Run::row(const ElementType& type, const ReduceOp& op, int root, size_t size) {
  Job job{collective_, type, op, root, size, false};
  Row row{.bytes = bench_.bytes_of(job),
          .count = bench_.shape_of(job).count,
          .type = collective_.has_data ? type.name : "none",
          .op = collective_.reduces ? op.name : "none",
          .root = root,
          .out_of_place = {},
          .in_place = {}};
  for (const auto& report : reports_) {
    report->before_row(fmt::format("measuring {} of {}{}{}", size_text(row.bytes), type.name,
                                   collective_.reduces ? ", " : "", collective_.reduces ? op.name : ""));
  }
  HOCKET_PERF_TRY(half(job, row.out_of_place));
  job.in_place = true;
  HOCKET_PERF_TRY(half(job, row.in_place));
  add(row.out_of_place, row.bytes, false);
  add(row.in_place, row.bytes, true);
  for (const auto& report : reports_) report->row(row);
  return {};
}

Outcome Run::rows_of(const ElementType& type, const ReduceOp& op, int root) {
  if (!collective_.has_data) return row(type, op, root, 0);
  const Sweep& sweep = options_.sweep;
  for (const size_t size : sizes_of({.first = sweep.first, .last = sweep.last, .step = 1, .factor = 2})) {
    HOCKET_PERF_TRY(bench_.warm_up({collective_, type, op, root, size, false}));
    if (size == 0) break;
  }
  for (const size_t size : sizes_of(sweep)) HOCKET_PERF_TRY(row(type, op, root, size));
  return {};
}

Outcome Run::cycle() {
  // Where there is nothing to choose, one entry stands for all.
  const std::vector<const ElementType*> no_types = {options_.types.front()};
  const std::vector<const ReduceOp*> no_ops = {&reduce_ops().front()};
  const int first_root = !collective_.rooted ? -1 : options_.root < 0 ? 0 : options_.root;
  const int last_root = collective_.rooted && options_.root < 0 ? team_.ranks() - 1 : first_root;
  for (const ElementType* type : collective_.has_data ? options_.types : no_types) {
    for (const ReduceOp* op : collective_.reduces ? options_.ops : no_ops) {
      if (!possible(collective_, *type, *op)) continue;
      for (int root = first_root; root <= last_root; ++root) HOCKET_PERF_TRY(rows_of(*type, *op, root));
    }
  }
  return {};
}

Outcome Run::all() {
  HOCKET_PERF_TRY(begin());
  for (int i = 0; options_.cycles == 0 || i < options_.cycles; ++i) HOCKET_PERF_TRY(cycle());
  return end();
}

Outcome Run::memory_text(std::string& text) {
  memory_[2] = resident_bytes();
  const int64_t stages[] = {memory_[0], memory_[1] - memory_[0], memory_[2] - memory_[1]};
  const char* const names[] = {"Initialization", "User-Allocated", "Collective"};
  int64_t total = 0;
  for (int i = 0; i < 3; ++i) {
    auto most = static_cast<double>(stages[i]);
    HOCKET_PERF_TRY(team_.reduce(most, Average::kMaximum));
    total += static_cast<int64_t>(most);
    text += fmt::format("{} {} | ", names[i], amount_text(static_cast<int64_t>(most)));
  }
  text += "Total  " + amount_text(total);
  return pipes_text(text);
}

// Of the communicator that is measured, of the rank whose pipes hold most.
Outcome Run::pipes_text(std::string& text) {
  double amounts[2] = {};
  for (const hocketCommMemStat_t stat : {hocketStatPipeBudget, hocketStatPipeMemory}) {
    for (const Member& member : team_.members()) {
      uint64_t bytes = 0;
      HOCKET_PERF_TRY(outcome_of(hocketCommMemStats(member.comm, stat, &bytes), "hocketCommMemStats", member.comm));
      amounts[stat] = std::max(amounts[stat], static_cast<double>(bytes));
    }
    HOCKET_PERF_TRY(team_.reduce(amounts[stat], Average::kMaximum));
  }
  text += fmt::format(" | Pipes {} of {}", amount_text(static_cast<int64_t>(amounts[hocketStatPipeMemory])),
                      amount_text(static_cast<int64_t>(amounts[hocketStatPipeBudget])));
  return {};
}

Outcome Run::end() {
  if (options_.memory) HOCKET_PERF_TRY(memory_text(summary_.memory));
  summary_.average_bus_bandwidth = halves_ > 0 ? sum_of_bandwidths_ / halves_ : 0;
  if (team_.has_rank_zero()) summary_.core_latency = to_text(probe_latency());
  for (const auto& report : reports_) report->end(summary_);
  // Times differ between ranks where -a says so: rank 0's verdict is everybody's.
  int64_t failed = team_.has_rank_zero() && (summary_.wrong_measurements != 0 || !summary_.fast_enough()) ? 1 : 0;
  HOCKET_PERF_TRY(team_.sum(failed));
  // The table has said why.
  return failed == 0 ? Outcome() : Outcome{kExitResults, ""};
}

}  // namespace hocket::perf
