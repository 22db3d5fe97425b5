// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace hocket::perf {
namespace {

constexpr std::chrono::seconds kLongRun{2};
constexpr std::chrono::seconds kInterval{1};

}  // namespace

Progress::Progress() {
  if (isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() {
  clear();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Progress::show(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  what_.clear();
  erase();
}

void Progress::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kInterval, [this] { return stopping_; })) {
    if (!what_.empty() && Clock::now() - start_ >= kLongRun) write();
  }
}

void Progress::write() {
  erase();
  const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_);
  fmt::print(stderr, "{} ({} s so far)", what_, elapsed.count());
  std::fflush(stderr);
  stands_ = true;
}

void Progress::erase() {
  if (!std::exchange(stands_, false)) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

}  // namespace hocket::perf
