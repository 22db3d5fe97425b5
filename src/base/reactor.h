// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// An event loop with one thread of its own: news of handles, timers, and functions posted by other threads. It knows
// only a System, so it runs on simulated ones too.
//
// Only start, stop, post and in_loop may be called from any thread. The others belong to the loop's thread, while it
// runs; before start() and after stop() they belong to whoever owns the reactor. A violation aborts.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/system.h"

namespace hocket {

// 0 is no timer.
using TimerId = uint64_t;

class Reactor {
 public:
  using Function = std::function<void()>;

  explicit Reactor(System& system);
  ~Reactor();  // stops
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Memory that runs out in a function ends that function only; `on_exhausted` is called in the loop then, and in its
  // next turn once more if there is not enough for it either.
  Status start(const std::string& thread_name, Function on_exhausted = [] {});
  // Runs what was posted before, then ends the loop and waits for its thread (unless called in it). Idempotent. What is
  // posted later is never run.
  void stop();

  // Runs `function` in the loop, soon, after all that was posted earlier.
  void post(Function function);
  bool in_loop() const { return loop_thread_.load() == system_.threads.self(); }

  // Calls `on_news` when the handle has news. Edge-triggered: read and write until nothing moves. What is there
  // already is news.
  Status watch(Handle handle, Function on_news);
  // Before the handle is closed. No call of its function starts after this, not even for news that has come already.
  void unwatch(Handle handle);

  // Calls `function` once, at `time` or soon after, and after all news that had come by then.
  TimerId at(Time time, Function function);
  // Calls `function` again and again, so long after its last end. Only this call takes memory.
  TimerId every(Duration period, Function function);
  void cancel(TimerId timer);

 private:
  struct Watch {
    uint64_t since = 0;  // the latest batch of news when it began
    std::shared_ptr<Function> on_news;
  };
  using TimerKey = std::pair<Time, TimerId>;
  struct Timer {
    Function function;
    Duration period{};  // 0: once
  };
  using Timers = std::map<TimerKey, Timer>;

  void run();
  void attempt(const Function& function) noexcept;
  void run_posted();
  void run_timers(Time due);
  void run_timer(Timers::node_type timer);
  std::vector<Handle> wait_for_news();
  TimerId add_timer(Time time, Timer timer);
  void dispatch(const std::vector<Handle>& news);
  void check_thread(const char* what) const;

  System& system_;
  Result<std::unique_ptr<Poller>> poller_;
  std::atomic<bool> running_ = false;
  std::atomic<const void*> loop_thread_ = nullptr;
  std::unique_ptr<Thread> thread_;

  std::mutex mutex_;
  std::vector<Function> posted_;
  bool stopping_ = false;

  uint64_t turn_ = 0;
  std::unordered_map<Handle, Watch> watches_;
  Timers timers_;
  std::unordered_map<TimerId, Time> timer_times_;
  TimerId last_timer_ = 0;
  Function on_exhausted_;
  bool exhausted_ = false;
};

}  // namespace hocket
