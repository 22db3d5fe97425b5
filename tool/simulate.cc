// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket simulate: how long a call takes on a network that need not be there, and what happens when parts of it fail.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <set>

#include "choose/choose.h"
#include "commands.h"
#include "files.h"
#include "network_option.h"
#include "on_topology.h"
#include "simulate/clock.h"
#include "simulate/goal.h"
#include "simulate/report.h"
#include "simulate/topology_fabric.h"
#include "simulate/trace.h"

namespace hocket::tool {
namespace {

using namespace simulate;  // NOLINT(google-build-using-namespace): this command is its face

constexpr int64_t kMaxRanks = 1 << 20;
constexpr Rank kDefaultRanks = 8;
constexpr int64_t kLeastSlice = 64;

struct Words {
  std::string collective = "all_reduce";
  std::string algorithm;
  std::optional<Rank> ranks;
  Rank root = 0;
  int32_t lanes = 1;
  std::string bytes = "1M";
  std::string slice = "128K";
  int32_t calls = 1;
  std::string network = std::string(kExampleNetwork);
  std::string topology;
  std::vector<std::string> slow_links;
  std::vector<std::string> lost_links;
  std::vector<std::string> late_ranks;
  std::vector<std::string> dead_ranks;
  std::string random;
  uint64_t seed = 1;
  size_t links = 0;
  std::string trace;
  std::string goal;
  std::string write_goal;
};

Status no_file(std::string_view what, const std::string& path) {
  return {Code::kSystem, fmt::format("{}: cannot open '{}'", what, path)};
}

// "NAME=VALUE".
Result<std::pair<std::string_view, std::string_view>> split(std::string_view option, std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals != std::string_view::npos) return std::pair{text.substr(0, equals), text.substr(equals + 1)};
  return Status(Code::kInvalidArgument, fmt::format("{}: '{}' has no '='", option, text));
}

Result<int32_t> parse_number(std::string_view option, std::string_view text, int64_t least, int64_t most) {
  const Result<int64_t> value = parse_size(text);
  if (value.ok() && *value >= least && *value <= most) return static_cast<int32_t>(*value);
  return Status(Code::kInvalidArgument, fmt::format("{}: '{}' is not from {} to {}", option, text, least, most));
}

class Simulation {
 public:
  explicit Simulation(const Words& words) : words_(words) {}

  Status run() {
    HOCKET_TRY(words_.topology.empty() ? read_network() : read_topology());
    HOCKET_TRY(collect());
    std::stable_sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.end < b.end; });
    for (const Run& run : runs_) fmt::print("{}", run.report);
    return {};
  }

 private:
  struct Run {
    Picoseconds end = 0;
    std::string report;
  };

  Status read_network() {
    Result<NetworkModel> model = network_option(words_.network);
    if (!model.ok()) return model.status();
    model_ = std::move(*model);
    ranks_ = words_.ranks.value_or(kDefaultRanks);
    return {};
  }

  // What the search finds, and plans over several hosts, are simulated too, where each seat has its rank.
  Status read_topology() {
    Result<topology::Reading> reading = tool::read_topology("--topology", words_.topology);
    if (!reading.ok()) return reading.status();
    for (const std::string& remark : reading->remarks) fmt::print(stderr, "warning    {}\n", remark);
    Result<TopologyFabric> fabric = TopologyFabric::make(std::move(reading->topology));
    if (!fabric.ok()) return {fabric.status().code(), fmt::format("--topology: {}", fabric.status().message())};
    const Topology& topology = topology_.emplace(std::move(*fabric)).topology();
    const auto seats = static_cast<Rank>(topology.seats().size());
    ranks_ = words_.ranks.value_or(seats);
    if (ranks_ > seats && words_.goal.empty())
      return {Code::kInvalidArgument, fmt::format("--ranks: the topology has {} seats for {} ranks", seats, ranks_)};
    if (ranks_ != seats) return {};
    found_ = search(topology);
    return {};
  }

  Status collect() {
    if (!words_.goal.empty()) return simulate_goal();
    Result<CallShape> shape = this->shape();
    if (!shape.ok()) return shape.status();
    for (const Builder& builder : builders()) {
      if (name(builder.collective) != words_.collective) continue;
      if (!words_.algorithm.empty() && builder.name != words_.algorithm) continue;
      BuildOptions options;
      options.ranks = ranks_;
      options.root = words_.root;
      options.lanes = words_.lanes;
      found_.offer(options);
      if (!builder.fits(options)) continue;
      // Who reaches into others' memory sends no messages: what that takes is known where processors' costs are, and
      // nothing of it on links.
      if (builder.uses_windows() && words_.algorithm.empty()) continue;
      if (builder.uses_windows() && topology_.has_value()) {
        return {Code::kInvalidArgument,
                fmt::format("--topology: {} {} sends no messages", words_.collective, builder.name)};
      }
      HOCKET_TRY(simulate_plan(builder, options, *shape));
    }
    if (!runs_.empty()) return {};
    return {Code::kInvalidArgument,
            fmt::format("no algorithm for {} '{}' of {} ranks, root {} and {} lanes", words_.collective,
                        words_.algorithm, ranks_, words_.root, words_.lanes)};
  }

  Result<CallShape> shape() const {
    CallShape shape;
    const Result<int64_t> bytes = parse_size(words_.bytes);
    if (!bytes.ok()) return bytes.status();
    const Result<int64_t> slice = parse_size(words_.slice);
    if (!slice.ok()) return slice.status();
    if (*slice < kLeastSlice) {
      return Status(Code::kInvalidArgument, fmt::format("--slice: {} bytes are less than {}", *slice, kLeastSlice));
    }
    shape.bytes = *bytes;
    shape.slice_bytes = *slice;
    return shape;
  }

  Status simulate_plan(const Builder& builder, const BuildOptions& options, CallShape shape) {
    const Cut pieces = cut(builder.build(options), static_cast<size_t>(shape.slice_bytes));
    shape.window_bytes = static_cast<int64_t>(pieces.window_bytes);
    shape.slice_bytes = static_cast<int64_t>(pieces.slice_bytes);
    const Result<Program> program = make_program(builder, options, shape);
    if (!program.ok()) return program.status();
    const Status carried = topology_.has_value() ? topology_->carries(*program) : Status();
    if (carried.ok() || !words_.algorithm.empty()) return carried.ok() ? simulate_program(*program) : carried;
    fmt::print(stderr, "warning    {}\n", carried.message());
    return {};
  }

  Status simulate_goal() {
    const Result<std::string> text = read_file("--goal", words_.goal);
    HOCKET_TRY(text.status());
    const Result<Program> program = read_goal(*text);
    if (!program.ok()) return {program.status().code(), fmt::format("{}: {}", words_.goal, program.status().message())};
    if (topology_.has_value()) HOCKET_TRY(topology_->carries(*program));
    return simulate_program(*program);
  }

  Status simulate_program(const Program& program) {
    return topology_.has_value() ? simulate_on(*topology_, program)
                                 : simulate_on(LevelFabric(model_, program.ranks()), program);
  }

  Status simulate_on(const Fabric& fabric, const Program& program) {
    SimulateOptions options;
    options.calls = words_.calls;
    const Outcome healthy = simulate::simulate(program, fabric, options);
    Run run{healthy.end, summary(program, healthy)};
    Result<Faults> faults = this->faults(fabric, program.ranks(), healthy.end);
    if (!faults.ok()) return faults.status();
    ChromeTrace trace;
    if (!words_.trace.empty()) options.observer = &trace;
    const std::string told = describe(*faults, fabric);
    options.faults = std::move(*faults);
    const bool again = !told.empty() || options.observer != nullptr;
    const Outcome outcome = again ? simulate::simulate(program, fabric, options) : healthy;
    if (std::max(healthy.end, outcome.end) >= kForever)
      return {Code::kInvalidArgument, fmt::format("{} takes longer than the 53 days that are simulated", program.name)};
    if (!told.empty()) run.report += told + "with that, " + summary(program, outcome);
    if (words_.links > 0) run.report += link_table(fabric, outcome, words_.links);
    runs_.push_back(std::move(run));
    HOCKET_TRY(write_trace(trace, fabric));
    return write_goal_file(program, fabric);
  }

  Result<Faults> faults(const Fabric& fabric, int32_t ranks, Picoseconds span) const {
    Faults faults;
    if (!words_.random.empty()) {
      Result<Faults> random = random_faults(words_.seed, words_.random, fabric, ranks, span);
      if (!random.ok()) return random.status();
      faults = std::move(*random);
    }
    HOCKET_TRY(add_link_faults(fabric, faults));
    HOCKET_TRY(add_rank_faults(ranks, faults));
    return faults;
  }

  // One that is not among those named before.
  static Result<LinkId> find_another(std::string_view option, const Fabric& fabric, std::string_view name,
                                     std::set<LinkId>& named) {
    const Result<LinkId> link = find_link(fabric, name);
    if (!link.ok() || named.insert(*link).second) return link;
    return Status(Code::kInvalidArgument, fmt::format("{}: '{}' is named twice", option, name));
  }

  Status add_link_faults(const Fabric& fabric, Faults& faults) const {
    std::set<LinkId> slow;
    std::set<LinkId> lost;
    for (const std::string& text : words_.slow_links) {
      const auto parts = split("--slow-link", text);
      if (!parts.ok()) return parts.status();
      const Result<LinkId> link = find_another("--slow-link", fabric, parts->first, slow);
      if (!link.ok()) return link.status();
      const Result<int32_t> times = parse_number("--slow-link", parts->second, 1, kMaxTimesSlower);
      if (!times.ok()) return times.status();
      faults.slow_links.push_back({*link, *times});
    }
    for (const std::string& text : words_.lost_links) {
      const auto parts = split("--lost-link", text);
      if (!parts.ok()) return parts.status();
      const Result<LinkId> link = find_another("--lost-link", fabric, parts->first, lost);
      if (!link.ok()) return link.status();
      const Result<Picoseconds> at = parse_time(parts->second);
      if (!at.ok()) return at.status();
      faults.lost_links.push_back({*link, *at});
    }
    return {};
  }

  Status add_rank_faults(int32_t ranks, Faults& faults) const {
    const auto parse = [&](std::string_view option, std::string_view text, int32_t* rank, Picoseconds* time) -> Status {
      const auto parts = split(option, text);
      if (!parts.ok()) return parts.status();
      const Result<int32_t> number = parse_number(option, parts->first, 0, ranks - 1);
      if (!number.ok()) return number.status();
      const Result<Picoseconds> value = parse_time(parts->second);
      if (!value.ok()) return value.status();
      *rank = *number;
      *time = *value;
      return {};
    };
    for (const std::string& text : words_.late_ranks) {
      LateRank& fault = faults.late_ranks.emplace_back();
      HOCKET_TRY(parse("--late-rank", text, &fault.rank, &fault.by));
    }
    for (const std::string& text : words_.dead_ranks) {
      DeadRank& fault = faults.dead_ranks.emplace_back();
      HOCKET_TRY(parse("--dead-rank", text, &fault.rank, &fault.at));
    }
    return {};
  }

  Status write_trace(const ChromeTrace& trace, const Fabric& fabric) const {
    if (words_.trace.empty()) return {};
    std::ofstream out(words_.trace);
    trace.write(out, fabric);
    if (!out.flush()) return no_file("--trace", words_.trace);
    if (trace.is_cut())
      fmt::print(stderr, "hocket simulate: the trace holds the first {} spans only\n", kMaxTraceSpans);
    return {};
  }

  Status write_goal_file(const Program& program, const Fabric& fabric) const {
    if (words_.write_goal.empty()) return {};
    std::ofstream out(words_.write_goal);
    write_goal(program, fabric.local(), out);
    return out.flush() ? Status() : no_file("--write-goal", words_.write_goal);
  }

  const Words& words_;
  Rank ranks_ = 0;
  NetworkModel model_;
  std::optional<TopologyFabric> topology_;  // or else the model
  OnTopology found_;                        // by a search of it
  std::vector<Run> runs_;
};

}  // namespace

Command simulate(CLI::App& program) {
  CLI::App* app = program.add_subcommand("simulate", "Run the plans of a call on a network in virtual time");
  const auto words = std::make_shared<Words>();
  app->add_option("collective", words->collective, "all_reduce, broadcast, ...")->capture_default_str();
  app->add_option("--algorithm", words->algorithm, "Only this one; not given: all that fit, fastest first");
  app->add_option("--ranks", words->ranks,
                  fmt::format("Number of ranks; not given: {}, or one on each seat of the topology", kDefaultRanks))
      ->check(CLI::Range(int64_t{1}, kMaxRanks));
  app->add_option("--root", words->root, "Of rooted collectives")->capture_default_str();
  app->add_option("--lanes", words->lanes, "Parts that run side by side")->check(CLI::Range(1, kMaxLanes));
  app->add_option("--bytes", words->bytes, "As callers count them: of the buffer, or of one rank's block")
      ->capture_default_str();
  app->add_option("--slice", words->slice, "Longest message")->capture_default_str();
  app->add_option("--calls", words->calls, "One after the other; the time is that of one among them")
      ->check(CLI::Range(1, 1000));
  CLI::Option* network = app->add_option("--network", words->network, std::string(kNetworkHelp))->capture_default_str();
  app->add_option("--topology", words->topology,
                  "Instead of levels, the links of this file, any that hocket topo --file reads; rank r on seat r")
      ->check(names_a_file)
      ->excludes(network);
  app->add_option("--slow-link", words->slow_links,
                  "NAME=TIMES, such as 'host 3 up=10', or 'gpu0 > nvswitch nvlink=10' of a topology");
  app->add_option("--lost-link", words->lost_links, "NAME=TIME: messages are lost from then on");
  app->add_option("--late-rank", words->late_ranks, "RANK=TIME: begins so much later");
  app->add_option("--dead-rank", words->dead_ranks, "RANK=TIME: stops then");
  app->add_option("--random-faults", words->random, "Kinds out of slow,lost,late,dead, at places that the seed tells");
  app->add_option("--seed", words->seed, "Of random faults");
  app->add_option("--links", words->links, "Show so many of the busiest links");
  app->add_option("--trace", words->trace, "Write a timeline for chrome://tracing or Perfetto");
  app->add_option("--goal", words->goal, "Run this GOAL file instead of a plan");
  app->add_option("--write-goal", words->write_goal, "Write what runs as a GOAL file");
  return {app, [words] { return Simulation(*words).run(); }};
}

}  // namespace hocket::tool
