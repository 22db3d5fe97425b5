// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket status: what the processes of this host that use Hocket do now, read from their flight recorders. They need
// not answer, so it also works on those that hang or stand still; the kernel lets us look at our own processes only.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "commands.h"
#include "observe/flight.h"

namespace hocket::tool {
namespace {

namespace fs = std::filesystem;

struct Wish {
  std::vector<int> processes;  // none: all
  size_t calls = 1;
  double seconds = 0.5;
};

std::vector<int> all_processes() {
  std::vector<int> all;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) all.push_back(std::stoi(name));
  }
  return all;
}

std::vector<std::byte> contents(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<std::byte> bytes(FlightRecorder::bytes());
  const ssize_t count = file ? ::pread(file.get(), bytes.data(), bytes.size(), 0) : 0;
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return bytes;
}

// A process may also hold recorders that are not its own: those of its parent.
std::optional<FlightCopy> flight_of(int process, size_t calls) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", process), error)) {
    if (!fs::read_symlink(entry.path(), error).string().starts_with("/memfd:hocket")) continue;
    Result<FlightCopy> copy = read_flight(contents(entry.path()), calls);
    if (copy.ok() && copy->process == process) return *copy;
  }
  return {};
}

struct Look {
  int process;
  FlightCopy flight;
};

std::vector<Look> look(const std::vector<int>& processes, size_t calls) {
  std::vector<Look> found;
  for (const int process : processes) {
    if (std::optional<FlightCopy> flight = flight_of(process, calls)) found.push_back({process, std::move(*flight)});
  }
  return found;
}

Status show(const Wish& wish) {
  const std::vector<Look> before = look(wish.processes.empty() ? all_processes() : wish.processes, 0);
  if (before.empty()) {
    return {Code::kInvalidArgument, wish.processes.empty()
                                        ? "no process that we may look at uses Hocket now"
                                        : fmt::format("process {}: none that we may look at and that uses Hocket",
                                                      fmt::join(wish.processes, ", "))};
  }
  const Duration between = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(wish.seconds));
  std::this_thread::sleep_for(between);
  for (const Look& earlier : before) {
    const std::optional<FlightCopy> now = flight_of(earlier.process, wish.calls);
    const Time time = std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
    fmt::print("{}", now ? flight_report(*now, earlier.flight, between, time)
                         : fmt::format("process {} has ended\n", earlier.process));
  }
  return {};
}

}  // namespace

Command status(CLI::App& program) {
  const auto wish = std::make_shared<Wish>();
  CLI::App* words = program.add_subcommand("status", "what the processes of this host that use Hocket do now");
  words->add_option("process", wish->processes, "process ids; without: all that we may look at");
  words->add_option("--calls", wish->calls, "how many of the last calls to show for each communicator")
      ->check(CLI::Range(size_t{0}, FlightLane::kCalls))
      ->capture_default_str();
  words->add_option("--seconds", wish->seconds, "how long to count calls for the rates")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  return {words, [wish] { return show(*wish); }};
}

}  // namespace hocket::tool
