// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "flights.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "base/descriptor.h"

namespace hocket::tool {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

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

std::vector<FlightCopy> flights(const std::vector<int>& processes, size_t calls) {
  std::vector<FlightCopy> found;
  for (const int process : processes.empty() ? all_processes() : processes) {
    if (std::optional<FlightCopy> flight = flight_of(process, calls)) found.push_back(std::move(*flight));
  }
  return found;
}

}  // namespace hocket::tool
