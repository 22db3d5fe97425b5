// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The table that people and scripts know from nccl-tests 2.19: same columns, same widths.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>

#include "progress.h"
#include "report.h"
#include "statistics.h"

namespace hocket::perf {
namespace {

constexpr int kTimestampWidth = 19;

// Columns that follow the four of each half.
struct ExtraColumn {
  const char* name;
  const char* unit;
  std::string (*text)(const Measurement& measurement, const Statistics& statistics);
};

constexpr int kExtraWidth = 7;

std::string micro(double seconds) { return fitted(seconds * 1e6, kExtraWidth); }

std::vector<ExtraColumn> extra_columns(const Options& options) {
  using M = const Measurement&;
  using S = const Statistics&;
  std::vector<ExtraColumn> columns;
  if (options.per_iteration) {
    columns = {
        {"i_min", "(us)", [](M, S s) { return micro(s.minimum); }},
        {"i_max", "(us)", [](M, S s) { return micro(s.maximum); }},
        {"i_p99", "(us)", [](M, S s) { return micro(s.p99); }},
        {"i_cv%", "(%)", [](M, S s) { return fitted(s.mean > 0 ? s.deviation / s.mean * 100 : 0, kExtraWidth); }}};
  }
  if (options.percentiles) {
    columns.push_back({"p50", "(us)", [](M, S s) { return micro(s.p50); }});
    columns.push_back({"p90", "(us)", [](M, S s) { return micro(s.p90); }});
    columns.push_back({"p99", "(us)", [](M, S s) { return micro(s.p99); }});
  }
  if (!options.codec.empty()) {
    columns.push_back({"sent", "(B)", [](M m, S) { return fitted(m.coded.sent_bytes, kExtraWidth); }});
    columns.push_back({"ratio", "", [](M m, S) { return fmt::format("{:.4f}", m.coded.ratio); }});
    columns.push_back({"error", "(x max)", [](M m, S) { return fmt::format("{:.1e}", m.coded.error); }});
    columns.push_back({"bound", "(x max)", [](M m, S) { return fmt::format("{:.1e}", m.coded.bound); }});
  }
  return columns;
}

class Table : public Report {
 public:
  explicit Table(const Options& options) : options_(options), extra_(extra_columns(options)) {}

  void begin(const RunInfo& run) override;
  void before_row(std::string_view what) override;
  void row(const Row& row) override;
  void end(const Summary& summary) override;

 private:
  void settings() const;
  void heading() const;
  void names(const char* time, bool units, std::string_view timestamp) const;
  void half(const Half& half) const;
  void best(const Summary& summary) const;

  const Options& options_;
  std::vector<ExtraColumn> extra_;
  std::string program_;
  Progress progress_;
};

void Table::settings() const {
  const Sweep& sweep = options_.sweep;
  const bool by_factor = sweep.factor > 1;
  fmt::print(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: {} "
      "validation: {} graph: 0 unalign: {}\n",
      options_.threads, options_.ranks_per_thread, sweep.first, sweep.last, by_factor ? sweep.factor : sweep.step,
      by_factor ? "factor" : "bytes", options_.warmup, options_.iterations, options_.aggregate, options_.checks,
      options_.unalign);
  switch (options_.blocking) {
    case Blocking::kNone:
      break;
    case Blocking::kWaitAndBarrier:
      fmt::print("# Blocking Enabled: wait and barrier after each inner iteration (-m) \n");
      break;
    case Blocking::kWait:
      fmt::print("# Blocking Enabled: wait after each inner iteration (-m), no barrier \n");
      break;
    case Blocking::kBarrierApart:
      fmt::print("# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier \n");
      break;
  }
  if (options_.per_iteration) {
    fmt::print("# Per-Iteration Report: host clock timing; i_* uses max over process rows{} \n",
               options_.skip > 0 ? fmt::format("; summary skips first {} iterations", options_.skip) : "");
  }
  if (options_.parallel_init) fmt::print("# Parallel Init Enabled: threads create their ranks concurrently \n");
  if (!options_.codec.empty()) fmt::print("# Codec: {}\n", options_.codec);
  if (options_.queue) fmt::print("# Asynchronous queue: calls are issued to a queue for each rank\n");
  if (options_.cold) fmt::print("# Cold: iterations walk through buffers of {} bytes\n", sweep.last);
  for (const std::string& flag : options_.ignored) fmt::print("# Ignored: {} means nothing for host memory\n", flag);
}

void Table::begin(const RunInfo& run) {
  program_ = run.program;
  fmt::print("# hocket-perf version {}.{}.{} hocket-headers={} hocket-library={}\n", HOCKET_MAJOR, HOCKET_MINOR,
             HOCKET_PATCH, run.header_version, run.library_version);
  fmt::print("# Collective test starting: {}\n", program_);
  settings();
  fmt::print("#\n# Using devices\n");
  std::set<std::string> hosts;
  for (const RankInfo& rank : run.ranks) {
    hosts.insert(rank.host);
    fmt::print("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [0000:00:00] {}\n", rank.rank, 0, rank.pid,
               rank.host, rank.device, rank.processor);
  }
  fmt::print("#\n# {} ranks in {} processes on {} hosts\n", run.ranks.size(), run.processes, hosts.size());
  for (const BuildFact& fact : run.build) {
    fmt::print("# Build: {} ({}): {}\n", fact.name, fact.found ? fact.version : "not found", fact.note);
  }
  fmt::print("# Core latency: {}\n", run.core_latency);
  heading();
  std::fflush(stdout);
}

void Table::names(const char* time, bool units, std::string_view timestamp) const {
  fmt::print("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", units ? "(B)" : "size", units ? "(elements)" : "count",
             units ? "" : "type", units ? "" : "redop", units ? "" : "root");
  for (int half = 0; half < 2; ++half) {
    fmt::print("  {:>7}  {:>6}  {:>6}  {:>6}", units ? "(us)" : time, units ? "(GB/s)" : "algbw",
               units ? "(GB/s)" : "busbw", units ? "" : "#wrong");
    for (const ExtraColumn& column : extra_) fmt::print("  {:>7}", units ? column.unit : column.name);
  }
  fmt::print(" {:>{}}\n", timestamp, options_.timestamps ? kTimestampWidth : 0);
}

void Table::heading() const {
  fmt::print("#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "", "", "", "", "");
  if (extra_.empty()) {
    fmt::print("           out-of-place                       in-place          \n");
  } else {
    const size_t width = 33 + 9 * extra_.size();
    const char* const more = options_.times_each_iteration() ? "per-iteration" : "codec";
    fmt::print("{:^{}}{:^{}}\n", fmt::format("out-of-place (+ {})", more), width, fmt::format("in-place (+ {})", more),
               width);
  }
  names(options_.cpu_time ? "cputime" : "time", false, options_.timestamps ? "timestamp" : "");
  names("", true, options_.timestamps ? "%Y-%m-%d %H:%M:%S" : "");
}

void Table::before_row(std::string_view what) { progress_.show(fmt::format("{}: {}", program_, what)); }

void Table::half(const Half& half) const {
  fmt::print("  {:>7}  {:>6}  {:>6}  ", fitted(half.time_us, 7), fitted(half.algorithm_bandwidth, 6),
             fitted(half.bus_bandwidth, 6));
  if (half.measurement.checked) {
    fmt::print("{:>6g}", static_cast<double>(half.measurement.wrong));
  } else {
    fmt::print("   N/A");
  }
  if (extra_.empty()) return;
  const std::span<const double> times = half.measurement.iterations;
  const auto skipped = std::min(times.size(), static_cast<size_t>(options_.skip));
  const Statistics statistics = statistics_of(times.subspan(skipped));
  for (const ExtraColumn& column : extra_) {
    fmt::print("  {:>{}}", column.text(half.measurement, statistics), kExtraWidth);
  }
}

void Table::row(const Row& row) {
  progress_.clear();
  fmt::print("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", row.bytes, row.count, row.type, row.op, row.root);
  half(row.out_of_place);
  half(row.in_place);
  if (options_.timestamps) fmt::print("{:>21}", time_of_day());
  fmt::print("\n");
  std::fflush(stdout);
}

void Table::best(const Summary& summary) const {
  const char* forced = std::getenv("HOCKET_ALGORITHM");
  fmt::print("# Best bus bandwidth: {:.2f} GB/s at {} ({}/{})\n", summary.best_bus_bandwidth,
             size_text(summary.best_bytes), forced != nullptr && *forced != '\0' ? forced : "auto",
             summary.best_in_place ? "in place" : "out of place");
}

void Table::end(const Summary& summary) {
  progress_.clear();
  fmt::print("# {:<20} : {} {}\n", "Out of bounds values", summary.wrong_measurements,
             summary.wrong_measurements != 0 ? "FAILED" : "OK");
  fmt::print("# {:<20} : {:g} {}\n", "Avg bus bandwidth", summary.average_bus_bandwidth,
             summary.demanded_bus_bandwidth < 0 ? ""
             : summary.fast_enough()            ? "OK"
                                                : "FAILED");
  fmt::print("#\n# Collective test concluded: {}\n", program_);
  if (!summary.memory.empty()) fmt::print("# {:<20} : {}\n", "Host memory usage", summary.memory);
  fmt::print("# {:<20} : {}\n#\n\n", "Core latency", summary.core_latency);
  best(summary);
  std::fflush(stdout);
}

}  // namespace

std::unique_ptr<Report> make_table(const Options& options) { return std::make_unique<Table>(options); }

std::string fitted(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
    if (text.size() <= static_cast<size_t>(width)) return text;
  }
  return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[kTimestampWidth + 1];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

}  // namespace hocket::perf
