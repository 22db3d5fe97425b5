// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket status: what the processes of this host that use Hocket do now, read from their flight recorders. They need
// not answer, so it also works on those that hang or stand still; the kernel lets us look at our own processes only.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "commands.h"
#include "flights.h"
#include "numbers.h"
#include "observe/flight.h"

namespace hocket::tool {
namespace {

struct Wish {
  std::vector<std::string> what;  // processes and names; none: all
  size_t calls = 1;
  double seconds = 0.5;

  bool names(const std::string& one) const { return std::find(what.begin(), what.end(), one) != what.end(); }
  bool is_for_all_of(const FlightCopy& process) const { return what.empty() || names(std::to_string(process.process)); }
};

// A process shows all its communicators, a name those that have it.
FlightCopy wished(const Wish& wish, FlightCopy process) {
  if (!wish.is_for_all_of(process))
    std::erase_if(process.lanes, [&](const FlightCopy::Lane& lane) { return !wish.names(lane.name); });
  return process;
}

std::string nobody(const Wish& wish) {
  if (wish.what.empty()) return "no process that we may look at uses Hocket now";
  return fmt::format(
      "{}: no process that we may look at uses Hocket and has this number or a communicator of this name",
      fmt::join(wish.what, ", "));
}

Status show(const Wish& wish) {
  std::vector<FlightCopy> before;
  for (FlightCopy& each : flights({}, 0)) {
    FlightCopy process = wished(wish, std::move(each));
    if (wish.is_for_all_of(process) || !process.lanes.empty()) before.push_back(std::move(process));
  }
  if (before.empty()) return {Code::kInvalidArgument, nobody(wish)};
  const Duration between = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(wish.seconds));
  std::this_thread::sleep_for(between);
  const auto clock = [] { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); };
  std::vector<FlightCopy> all;
  for (const FlightCopy& earlier : before) {
    std::optional<FlightCopy> now = flight_of(earlier.process, wish.calls);
    if (!now) {
      fmt::print("process {} has ended\n", earlier.process);
      continue;
    }
    all.push_back(wished(wish, std::move(*now)));
    fmt::print("{}", flight_report(all.back(), earlier, between, clock()));
  }
  fmt::print("{}", standstill_report(all, clock()));
  return {};
}

}  // namespace

Command status(CLI::App& program) {
  const auto wish = std::make_shared<Wish>();
  CLI::App* words = program.add_subcommand("status", "what the processes of this host that use Hocket do now");
  words->add_option("what", wish->what,
                    "process ids, and names of communicators as the program gave them (jobs); without: all that we may "
                    "look at");
  words->add_option("--calls", wish->calls, "how many of the last calls to show for each communicator")
      ->check(CLI::Range(size_t{0}, FlightRow::kCalls - 1))
      ->capture_default_str();
  words->add_option("--seconds", wish->seconds, "how long to count calls for the rates")
      ->check(CLI::Range(0.0, 60.0))
      ->check(refuse_nan)
      ->capture_default_str();
  return {words, [wish] { return show(*wish); }};
}

}  // namespace hocket::tool
