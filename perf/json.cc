// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The JSON of nccl-tests 2.19, key for key, its strings for truth values and its padded root included. One thing
// differs: of the environment only HOCKET_* is written, and never the secret.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "output_file.h"
#include "report.h"
#include "statistics.h"

namespace hocket::perf {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatVersion = 3;  // nccl-tests' number for this set of keys

const char* truth(bool value) { return value ? "true" : "false"; }

Json number(double value) { return std::isnan(value) ? Json("nan") : Json(value); }

Json environment() {
  Json lines = Json::array();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    if (line.starts_with("HOCKET_") && !line.starts_with("HOCKET_SECRET")) lines.push_back(line);
  }
  return lines;
}

Json devices(const RunInfo& run) {
  Json list = Json::array();
  for (const RankInfo& rank : run.ranks) {
    list.push_back({{"rank", rank.rank},
                    {"group", 0},
                    {"pid", rank.pid},
                    {"hostname", rank.host},
                    {"device", rank.device},
                    {"device_hex", "0000:00:00"},
                    {"device_info", rank.processor}});
  }
  return list;
}

Json configuration(const Options& options, const RunInfo& run) {
  Json config;
  config["nthreads"] = options.threads;
  config["ngpus"] = options.ranks_per_thread;
  config["minimum_bytes"] = options.sweep.first;
  config["maximum_bytes"] = options.sweep.last;
  const bool by_factor = options.sweep.factor > 1;
  config[by_factor ? "step_factor" : "step_bytes"] = by_factor ? options.sweep.factor : options.sweep.step;
  config["warmup_iters"] = options.warmup;
  config["iterations"] = options.iterations;
  config["aggregated_iterations"] = options.aggregate;
  config["validation"] = options.checks;
  config["graph"] = 0;
  config["blocking_collectives"] = truth(options.blocking != Blocking::kNone);
  config["per_iter_timing"] = truth(options.times_each_iteration());
  config["per_iter_skip"] = options.skip;
  config["parallel_init"] = truth(options.parallel_init);
  config["core_latency"] = run.core_latency;
  config["devices"] = devices(run);
  return config;
}

Json microseconds(std::span<const double> seconds) {
  Json list = Json::array();
  for (const double time : seconds) list.push_back(time * 1e6);
  return list;
}

Json per_iteration(const Options& options, const Measurement& measurement) {
  const std::span<const double> times = measurement.iterations;
  const Statistics s = statistics_of(times.subspan(static_cast<size_t>(options.skip)));
  Json entry;
  entry["skipped_iterations"] = options.skip;
  entry["min_us"] = s.minimum * 1e6;
  entry["max_us"] = s.maximum * 1e6;
  entry["avg_us"] = s.mean * 1e6;
  entry["p50_us"] = s.p50 * 1e6;
  entry["p90_us"] = s.p90 * 1e6;
  entry["p95_us"] = s.p95 * 1e6;
  entry["p99_us"] = s.p99 * 1e6;
  entry["stdev_us"] = s.deviation * 1e6;
  entry["cv_pct"] = s.mean > 0 ? s.deviation / s.mean * 100 : 0;
  entry["times_us"] = microseconds(times);
  if (measurement.of_process.size() < 2) return entry;
  Json rows = Json::array();
  for (const auto& row : measurement.of_process) rows.push_back(microseconds(row));
  entry["per_process_max_times_us"] = std::move(rows);
  return entry;
}

Json half_row(const Options& options, const Half& half) {
  Json entry;
  entry[options.cpu_time ? "cpu_time" : "time"] = number(half.time_us);
  entry["alg_bw"] = number(half.algorithm_bandwidth);
  entry["bus_bw"] = number(half.bus_bandwidth);
  entry["nwrong"] = half.measurement.checked ? Json(static_cast<double>(half.measurement.wrong)) : Json(nullptr);
  if (options.codec.empty()) return entry;
  const Coded& coded = half.measurement.coded;
  entry["codec"] = {
      {"sent_bytes", coded.sent_bytes}, {"ratio", coded.ratio}, {"error", coded.error}, {"bound", coded.bound}};
  return entry;
}

// Written piece by piece, so that a long run needs no memory for its past.
class JsonFile : public Report {
 public:
  JsonFile(const Options& options, File file) : options_(options), file_(std::move(file)) {}

  void begin(const RunInfo& run) override;
  void before_row(std::string_view) override {}
  void row(const Row& row) override;
  void end(const Summary& summary) override;

 private:
  void print(const std::string& text) {
    std::fputs(text.c_str(), file_.get());
    std::fflush(file_.get());
  }
  // The members of an object without its braces. Bytes that are no UTF-8, in an argument say, are replaced.
  static std::string members(const Json& object) {
    const std::string text = object.dump(-1, ' ', false, Json::error_handler_t::replace);
    return text.substr(1, text.size() - 2);
  }

  const Options& options_;
  File file_;
  bool first_row_ = true;
};

void JsonFile::begin(const RunInfo& run) {
  Json head;
  head["version"] = kFormatVersion;
  head["start_time"] = time_of_day();
  head["args"] = options_.arguments;
  head["env"] = environment();
  head["nccl_version"] = run.library_version;
  head["config"] = configuration(options_, run);
  print("{" + members(head) + ",\"results\":[");
}

void JsonFile::row(const Row& row) {
  Json entry;
  entry["size"] = row.bytes;
  entry["count"] = row.count;
  entry["type"] = row.type;
  entry["redop"] = row.op;
  entry["root"] = fmt::format("{:6}", row.root);
  entry["out_of_place"] = half_row(options_, row.out_of_place);
  if (options_.times_each_iteration()) {
    entry["out_of_place_per_iter"] = per_iteration(options_, row.out_of_place.measurement);
  }
  entry["in_place"] = half_row(options_, row.in_place);
  if (options_.times_each_iteration()) {
    entry["in_place_per_iter"] = per_iteration(options_, row.in_place.measurement);
  }
  entry["actual_iterations"] = options_.iterations;
  entry["experiment_name"] = "";
  print((first_row_ ? "\n{" : ",\n{") + members(entry) + "}");
  first_row_ = false;
}

void JsonFile::end(const Summary& summary) {
  Json tail;
  tail["out_of_bounds"] = {{"count", summary.wrong_measurements}, {"okay", truth(summary.wrong_measurements == 0)}};
  tail["average_bus_bandwidth"] = {
      {"bandwidth", number(summary.average_bus_bandwidth)},
      {"okay", summary.demanded_bus_bandwidth < 0 ? "unchecked" : truth(summary.fast_enough())}};
  tail["core_latency"] = summary.core_latency;
  const std::string_view error = hocketGetLastError(nullptr);
  tail["errors"] = error.empty() ? Json::array() : Json::array({error});
  tail["end_time"] = time_of_day();
  print("\n]," + members(tail) + "}\n");
}

}  // namespace

std::unique_ptr<Report> make_json(const Options& options) {
  File file = make_output_file(options.json_file, "JSON");
  return file ? std::make_unique<JsonFile>(options, std::move(file)) : nullptr;
}

}  // namespace hocket::perf
