// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Writes log lines, each by one system call, so that lines of different threads and processes do not mix.
#include "base/log.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "base/settings.h"

namespace hocket {
namespace {

constexpr size_t kLongestLine = 4096;  // what a pipe takes in one piece
constexpr int32_t kRankOfSettings = INT32_MIN;

std::atomic<int32_t> log_rank = kRankOfSettings;

int32_t current_rank() {
  const int32_t rank = log_rank.load(std::memory_order_relaxed);
  if (rank != kRankOfSettings) return rank;
  return settings().ok() ? settings()->rank : -1;
}

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "log";
}

std::string time_text() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::localtime_r(&now.tv_sec, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec, now.tv_nsec / 1000000);
}

std::string line_of(LogLevel level, std::string_view message) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  const int32_t rank = current_rank();
  const std::string rank_text = rank < 0 ? "" : fmt::format(" rank {}", rank);
  std::string line =
      fmt::format("{} {}:{}{} hocket {}: {}", time_text(), host, ::getpid(), rank_text, name_of(level), message);
  if (line.size() >= kLongestLine) line.replace(kLongestLine - 4, std::string::npos, "...");
  // Words of a stranger may be in it: they cannot begin a line or steer a terminal.
  std::replace_if(line.begin(), line.end(), [](char each) { return static_cast<unsigned char>(each) < ' '; }, ' ');
  return line + '\n';
}

}  // namespace

bool logs(LogLevel level) noexcept { return level <= (settings().ok() ? settings()->log : LogLevel::kWarn); }

void log(LogLevel level, std::string_view message) noexcept {
  try {
    if (!logs(level)) return;
    const std::string line = line_of(level, message);
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // no memory for a line: better no line
  }
}

void set_log_rank(int32_t rank) noexcept { log_rank.store(std::max(rank, -1), std::memory_order_relaxed); }

}  // namespace hocket
