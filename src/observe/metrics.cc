// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "observe/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace hocket {
namespace {

// Quotes and newlines end a label's value early.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') result += '\\';
    result += letter == '\n' ? std::string("\\n") : std::string(1, letter);
  }
  return result;
}

// One name with its lines, which stand together as the format wants it.
class Family {
 public:
  Family(std::string_view name, std::string_view kind, std::string_view help)
      : name_(name), text_(fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, kind)) {}
  void add(std::string_view labels, double value) { text_ += fmt::format("{}{{{}}} {:.15g}\n", name_, labels, value); }
  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string text_;
};

struct Kind {
  std::string collective;
  uint64_t bytes;
  std::string algorithm;
  friend auto operator<=>(const Kind&, const Kind&) = default;
};

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

class Page {
 public:
  explicit Page(const MetricsPlace& place) : place_(place) {}

  void add(const MetricsLook& look) {
    for (const FlightCopy::Lane& lane : look.now.lanes) add(look, lane);
  }
  std::string text() const {
    std::string text;
    for (const Family* family : {&calls_, &waited_, &waiting_, &share_, &times_, &bandwidth_, &pipes_, &budget_})
      text += family->text();
    return text;
  }

 private:
  std::string labels(const FlightCopy& process, const FlightCopy::Lane& lane) const {
    return fmt::format(
        R"(version="{}",slurm_job_id="{}",node="{}",gpu="",pid="{}",comm_name="{}",n_nodes="{}",nranks="{}",rank="{}")",
        escaped(place_.version), escaped(place_.job), escaped(place_.node), process.process, escaped(lane.name),
        lane.hosts, lane.ranks, lane.rank);
  }

  void add(const MetricsLook& look, const FlightCopy::Lane& lane) {
    const std::string all = labels(look.now, lane);
    calls_.add(all, static_cast<double>(lane.ended));
    waited_.add(all, seconds(Duration(lane.waited_ns)));
    add_waiting(lane, all, look.time);
    add_pipes(lane, all);
    std::map<Kind, std::vector<double>> kinds;
    double total = 0;
    for (const FlightCopy::Timed& timed : lane.timed) {
      const double took = timed.seconds();
      if (took < 0) continue;  // whoever wrote it is not to be trusted
      kinds[{timed.collective, timed.bytes, timed.algorithm}].push_back(took);
      total += took;
    }
    add_share(look, lane, all, total);
    for (auto& [kind, times] : kinds) add(lane, all, kind, times);
  }

  // Of a job that hangs nothing else moves.
  void add_waiting(const FlightCopy::Lane& lane, const std::string& all, Time time) {
    if (lane.awaited < 0) return;
    waiting_.add(fmt::format(R"({},awaited_rank="{}")", all, lane.awaited), seconds(waiting(lane, time)));
  }

  void add_pipes(const FlightCopy::Lane& lane, const std::string& all) {
    if (lane.pipe_budget == 0) return;
    pipes_.add(all, static_cast<double>(lane.pipe_bytes));
    budget_.add(all, static_cast<double>(lane.pipe_budget));
  }

  // As if all calls took as long as those that were timed.
  void add_share(const MetricsLook& look, const FlightCopy::Lane& lane, const std::string& all, double total) {
    const FlightCopy::Lane* before = same_lane(lane, look.earlier);
    if (before == nullptr || lane.timed.empty() || look.between <= Duration::zero()) return;
    const auto calls = static_cast<double>(lane.ended - before->ended);
    const double mean = total / static_cast<double>(lane.timed.size());
    share_.add(all, std::min(1.0, calls * mean / seconds(look.between)));
  }

  void add(const FlightCopy::Lane& lane, const std::string& all, const Kind& kind, std::vector<double>& times) {
    std::sort(times.begin(), times.end());
    const std::string labels = fmt::format(R"({},collective="{}",message_size="{}",algo_proto="{}")", all,
                                           escaped(kind.collective), kind.bytes, escaped(kind.algorithm));
    for (const double share : {0.5, 0.9, 0.99}) {
      times_.add(fmt::format(R"({},quantile="{}")", labels, share), 1e6 * quantile(times, share));
    }
    const double median = quantile(times, 0.5);
    if (kind.bytes > 0 && median > 0) {
      bandwidth_.add(labels, static_cast<double>(kind.bytes) * factor(kind.collective, lane.ranks) / median * 1e-9);
    }
  }

  // Of nccl-tests: what all links together would have to carry.
  static double factor(std::string_view collective, int32_t ranks) {
    const double n = ranks;
    if (collective == "all_reduce") return 2 * (n - 1) / n;
    const bool of_parts = collective == "all_gather" || collective == "reduce_scatter" || collective == "all_to_all";
    return of_parts ? n - 1 : 1;  // the count is that of a part
  }

  const MetricsPlace& place_;
  Family calls_{"hocket_calls_total", "counter", "Calls that have ended."};
  Family waited_{"hocket_wait_seconds_total", "counter", "Time that calls waited for other ranks."};
  Family waiting_{"hocket_waiting_seconds", "gauge", "How long a call has been waiting for that rank now."};
  Family share_{"hocket_collective_time_share", "gauge", "Share of the time in calls, about, since the last look."};
  Family times_{"hocket_collective_exec_time_microseconds", "gauge", "Quantiles of the calls that were timed last."};
  Family pipes_{"hocket_pipe_bytes", "gauge", "Memory that the rank's pipes hold."};
  Family budget_{"hocket_pipe_budget_bytes", "gauge", "Memory that the rank's pipes should hold at most."};
  Family bandwidth_{"hocket_bus_bandwidth_gbs", "gauge", "Bus bandwidth of the median call, as in nccl-tests."};
};

}  // namespace

std::string metrics_text(const std::vector<MetricsLook>& looks, const MetricsPlace& place) {
  Page page(place);
  for (const MetricsLook& look : looks) page.add(look);
  return page.text();
}

}  // namespace hocket
