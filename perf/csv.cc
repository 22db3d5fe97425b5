// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <fmt/format.h>

#include <utility>

#include "output_file.h"
#include "report.h"
#include "statistics.h"

namespace hocket::perf {
namespace {

class Csv : public Report {
 public:
  Csv(const Options& options, File file) : options_(options), file_(std::move(file)) {}

  void begin(const RunInfo&) override {
    const char* const coded = options_.codec.empty() ? "" : ",sent_bytes,ratio,error,bound";
    print(
        fmt::format("size_bytes,count,type,redop,root,in_place,time_us,algbw_gb_s,busbw_gb_s,wrong,p50_us,p90_us,"
                    "p99_us{}\n",
                    coded));
  }
  void before_row(std::string_view) override {}
  void row(const Row& row) override {
    half(row, row.out_of_place, false);
    half(row, row.in_place, true);
  }
  void end(const Summary&) override {}

 private:
  void print(const std::string& text) {
    std::fputs(text.c_str(), file_.get());
    std::fflush(file_.get());
  }
  void half(const Row& row, const Half& half, bool in_place) {
    const Measurement& measurement = half.measurement;
    std::string percentiles = ",,";
    if (!measurement.iterations.empty()) {
      const std::span<const double> times = measurement.iterations;
      const Statistics s = statistics_of(times.subspan(static_cast<size_t>(options_.skip)));
      percentiles = fmt::format("{:.3f},{:.3f},{:.3f}", s.p50 * 1e6, s.p90 * 1e6, s.p99 * 1e6);
    }
    const Coded& sent = measurement.coded;
    const std::string coded = options_.codec.empty() ? ""
                                                     : fmt::format(",{:.0f},{:.6f},{:.3e},{:.3e}", sent.sent_bytes,
                                                                   sent.ratio, sent.error, sent.bound);
    print(fmt::format("{},{},{},{},{},{},{:.3f},{:.6f},{:.6f},{},{}{}\n", row.bytes, row.count, row.type, row.op,
                      row.root, in_place ? 1 : 0, half.time_us, half.algorithm_bandwidth, half.bus_bandwidth,
                      measurement.checked ? fmt::to_string(measurement.wrong) : "", percentiles, coded));
  }

  const Options& options_;
  File file_;
};

}  // namespace

std::unique_ptr<Report> make_csv(const Options& options) {
  File file = make_output_file(options.csv_file, "CSV");
  return file ? std::make_unique<Csv>(options, std::move(file)) : nullptr;
}

}  // namespace hocket::perf
