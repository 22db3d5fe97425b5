// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <fstream>

namespace hocket::perf {

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  const std::string full(name);
  return full.substr(0, full.find('.'));
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

size_t memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

int64_t resident_bytes() {
  int64_t pages = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::string amount_text(int64_t bytes) {
  constexpr std::array kUnits = {"B", "KB", "MB", "GB"};
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::fabs(amount) >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", amount, std::fabs(amount) < 10 ? 2 : std::fabs(amount) < 100 ? 1 : 0, kUnits[unit]);
}

}  // namespace hocket::perf
