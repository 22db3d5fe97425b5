// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Who runs next, and what time it is, in a simulation. Every simulated thread is a real one, but only the one that
// holds the baton runs; it passes the baton on when it waits, sleeps, yields or ends. A seeded generator chooses who
// gets it. Time stands still but for small costs, and jumps when all wait. Knows no network.
//
// All methods are for the baton's holder, or for a thread outside while no simulation runs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/system.h"

namespace hocket {

class SimulatedScheduler : public std::enable_shared_from_this<SimulatedScheduler> {
 public:
  struct Task {
    enum class State : uint8_t { kReady, kWaiting, kEnded };
    std::string name;
    uint64_t number = 0;
    State state = State::kReady;
    Time until = Time::max();  // of a wait
    std::string waits_for;     // in words
    std::vector<Task*> joiners;
    std::condition_variable turn;
    std::thread thread;
  };

  SimulatedScheduler(uint64_t seed, Duration time_limit, uint64_t step_limit);

  // Null when the real system grants no more threads.
  std::shared_ptr<Task> start(std::string name, std::function<void()> body);
  // Waits for its end, and for that of the real thread.
  void join(Task& task);

  // From outside: runs the tasks until all have ended. Fails when all wait for ever or a limit is passed, naming who
  // waits for what; their threads then never run again, and neither does this scheduler.
  Status run();
  bool is_dead() const { return !failure_.ok(); }

  // Looking at the clock takes some time, so that who looks again and again sees it move.
  Time look_at_clock();
  Time now() const { return now_; }

  // The running task; null outside.
  static Task* current();
  // Lets another task run, perhaps.
  void yield();
  // A place where the real system might run another thread: yields now and then.
  void preempt();
  // Until resume() or that time. In a dead simulation, and there only, returns early.
  void wait(Time until, std::string waits_for);
  void resume(Task* task);

  // Calls `event` at that time, whoever holds the baton then. Events of the same time keep their order.
  void at(Time time, std::function<void()> event);
  // Calls the events that are due.
  void run_events();

  uint64_t random(uint64_t below);
  // Makes this a part of what trace_hash() says.
  void trace(uint64_t what);
  uint64_t trace_hash() const { return trace_hash_; }

 private:
  void run_task(Task& task, std::function<void()> body);
  void pass_baton(Task* self);
  Task* choose();
  std::vector<Task*> ready_tasks() const;
  Time next_time() const;
  void fail(const std::string& how);

  const Duration time_limit_;
  const uint64_t step_limit_;
  std::mt19937_64 generator_;
  Time now_;
  uint64_t steps_ = 0;
  uint64_t tasks_started_ = 0;
  uint64_t trace_hash_ = 0;
  std::multimap<Time, std::function<void()>> events_;
  std::vector<std::shared_ptr<Task>> tasks_;  // that have not ended
  std::vector<std::shared_ptr<Task>> ended_;  // run() joins what nobody else has joined
  Status failure_;

  // Guards nothing but the baton itself: what its holder wrote, the next holder sees.
  std::mutex mutex_;
  std::condition_variable outside_turn_;
  Task* holder_ = nullptr;  // null: nobody inside, run() may return
};

}  // namespace hocket
