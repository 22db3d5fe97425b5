// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A line on the terminal that says what a long run is at, renewed every second by a thread of its own: what is measured
// is not asked to tell. Where standard error is no terminal, nothing is shown and no thread runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace hocket::perf {

class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // From now on, as soon as the run is a long one.
  void show(std::string what);
  // Takes the line away, so that something else can be written.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void write();
  void erase();

  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;       // guarded by mutex_; empty: nothing
  bool stands_ = false;    // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace hocket::perf
