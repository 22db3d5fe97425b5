// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket metrics: what the processes of this host that use Hocket have done, as Prometheus text, once or again and
// again. hocket trace: their timed calls as a timeline.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "commands.h"
#include "flights.h"
#include "hocket/hocket.h"
#include "numbers.h"
#include "observe/merge.h"
#include "observe/metrics.h"
#include "observe/timeline.h"

namespace hocket::tool {
namespace {

using Clock = std::chrono::steady_clock;

Duration as_duration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

MetricsPlace place() {
  int version = 0;
  hocketGetVersion(&version);
  const char* job = std::getenv("SLURM_JOB_ID");
  return {fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100), host_name(),
          job == nullptr ? "" : job};
}

// Whole or not at all: somebody may read at any time.
Status write_whole(const std::string& path, const std::string& text) {
  const std::string fresh = fmt::format("{}.{}", path, ::getpid());
  std::ofstream file(fresh);
  file << text;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(fresh, path, error);
  if (file && !error) return {};
  std::filesystem::remove(fresh, error);
  return {Code::kSystem, fmt::format("cannot write {}", path)};
}

struct MetricsWish {
  std::string file;
  double seconds = 1;
  int64_t times = 1;
};

Status measure(const MetricsWish& wish) {
  std::vector<FlightCopy> before = flights({}, 0);
  for (int64_t round = 0; wish.times == 0 || round < wish.times; ++round) {
    const auto start = Clock::now();
    std::this_thread::sleep_for(as_duration(wish.seconds));
    std::vector<FlightCopy> now = flights({}, 0);
    std::vector<MetricsLook> looks;
    for (const FlightCopy& process : now) {
      const auto same = std::find_if(before.begin(), before.end(),
                                     [&](const FlightCopy& other) { return other.process == process.process; });
      const Clock::time_point looked = Clock::now();
      looks.push_back({process, same == before.end() ? FlightCopy() : *same, looked - start, looked});
    }
    const std::string text = metrics_text(looks, place());
    if (wish.file.empty()) {
      fmt::print("{}", text);
    } else {
      HOCKET_TRY(write_whole(wish.file, text));
    }
    before = std::move(now);
  }
  return {};
}

struct TraceWish {
  std::string file;
  double seconds = 5;
  std::vector<std::string> merge;
};

Status merge(const TraceWish& wish) {
  std::vector<std::string> texts;
  for (const std::string& path : wish.merge) {
    std::ifstream file(path);
    if (!file) return {Code::kSystem, fmt::format("cannot read {}", path)};
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  const Result<MergedTimelines> merged = merge_timelines(texts);
  HOCKET_TRY(merged.status());
  for (size_t i = 0; i < wish.merge.size(); ++i) {
    const auto& offset = merged->offsets[i];
    if (!offset) fmt::print("{}: no call in common with those before, its clock is taken as it is\n", wish.merge[i]);
    if (offset && i > 0)
      fmt::print("{}: its clock was {:.1f} us behind, {:.1f} us more or less\n", wish.merge[i], offset->microseconds,
                 offset->error);
  }
  return write_whole(wish.file, merged->json);
}

// What the wall clock is ahead of the steady one.
int64_t wall_ahead() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<Duration>(wall - Clock::now().time_since_epoch()).count();
}

Status trace(const TraceWish& wish) {
  if (!wish.merge.empty()) return merge(wish);
  constexpr Duration kLook = std::chrono::milliseconds(10);
  Timeline timeline(host_name(), wall_ahead());
  const auto end = Clock::now() + as_duration(wish.seconds);
  std::vector<int> processes;
  for (const FlightCopy& process : flights({}, 0)) processes.push_back(process.process);
  if (processes.empty()) return {Code::kInvalidArgument, "no process that we may look at uses Hocket now"};
  while (Clock::now() < end) {
    for (const FlightCopy& process : flights(processes, 0)) timeline.add(process);
    std::this_thread::sleep_for(kLook);
  }
  HOCKET_TRY(write_whole(wish.file, timeline.json()));
  fmt::print("{} calls{}\n", timeline.calls(), timeline.is_cut() ? "; others came too fast to be kept" : "");
  return {};
}

}  // namespace

Command metrics(CLI::App& program) {
  const auto wish = std::make_shared<MetricsWish>();
  CLI::App* words = program.add_subcommand("metrics", "Prometheus text of the processes of this host that use Hocket");
  words->add_option("--file", wish->file, "written anew each time, for node_exporter; without: standard output");
  words->add_option("--seconds", wish->seconds, "from one time to the next")
      ->check(CLI::Range(0.1, 3600.0))
      ->check(refuse_nan);
  words->add_option("--times", wish->times, "how often; 0: for ever")->check(CLI::NonNegativeNumber);
  return {words, [wish] { return measure(*wish); }};
}

Command trace(CLI::App& program) {
  const auto wish = std::make_shared<TraceWish>();
  CLI::App* words = program.add_subcommand("trace", "a timeline of timed calls, for chrome://tracing and Perfetto");
  words->add_option("file", wish->file, "what to write")->required();
  words->add_option("--seconds", wish->seconds, "how long to look")->check(CLI::Range(0.1, 3600.0))->check(refuse_nan);
  words->add_option("--merge", wish->merge, "timelines of several hosts, to be made one instead");
  return {words, [wish] { return trace(*wish); }};
}

}  // namespace hocket::tool
