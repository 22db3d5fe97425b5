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
#include "observe/flight.h"

namespace hocket::tool {
namespace {

struct Wish {
  std::vector<int> processes;  // none: all
  std::string name;            // empty: of any name
  size_t calls = 1;
  double seconds = 0.5;
};

bool concerns(const Wish& wish, const FlightCopy& process) {
  return wish.name.empty() || std::any_of(process.lanes.begin(), process.lanes.end(),
                                          [&](const FlightCopy::Lane& lane) { return lane.name == wish.name; });
}

std::string nobody(const Wish& wish) {
  const std::string of_name = wish.name.empty() ? "" : fmt::format(" for a communicator {}", wish.name);
  if (wish.processes.empty()) return fmt::format("no process that we may look at uses Hocket now{}", of_name);
  return fmt::format("process {}: none that we may look at and that uses Hocket{}", fmt::join(wish.processes, ", "),
                     of_name);
}

Status show(const Wish& wish) {
  std::vector<FlightCopy> before = flights(wish.processes, 0);
  std::erase_if(before, [&](const FlightCopy& process) { return !concerns(wish, process); });
  if (before.empty()) return {Code::kInvalidArgument, nobody(wish)};
  const Duration between = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(wish.seconds));
  std::this_thread::sleep_for(between);
  for (const FlightCopy& earlier : before) {
    std::optional<FlightCopy> now = flight_of(earlier.process, wish.calls);
    if (now && !wish.name.empty()) {
      std::erase_if(now->lanes, [&](const FlightCopy::Lane& lane) { return lane.name != wish.name; });
    }
    const Time time = std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
    fmt::print("{}", now ? flight_report(*now, earlier, between, time)
                         : fmt::format("process {} has ended\n", earlier.process));
  }
  return {};
}

}  // namespace

Command status(CLI::App& program) {
  const auto wish = std::make_shared<Wish>();
  CLI::App* words = program.add_subcommand("status", "what the processes of this host that use Hocket do now");
  words->add_option("process", wish->processes, "process ids; without: all that we may look at");
  words->add_option("--name", wish->name, "only communicators of this name, as the program gave it: a job");
  words->add_option("--calls", wish->calls, "how many of the last calls to show for each communicator")
      ->check(CLI::Range(size_t{0}, FlightRow::kCalls - 1))
      ->capture_default_str();
  words->add_option("--seconds", wish->seconds, "how long to count calls for the rates")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  return {words, [wish] { return show(*wish); }};
}

}  // namespace hocket::tool
