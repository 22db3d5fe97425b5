// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Who runs next, and what time it is, in a simulation. Every simulated thread is a fiber of the real one that called
// run(); it lets go when it waits, sleeps, yields or ends. A seeded generator chooses who goes on. Time stands still
// but for small costs, and jumps when all wait. Knows no network.
//
// All methods are for the task that runs, or for a thread outside while no simulation runs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/fiber.h"
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
    std::unique_ptr<Fiber> fiber;
  };

  SimulatedScheduler(uint64_t seed, Duration time_limit, uint64_t step_limit);

  // Null when the real system grants no more stacks.
  std::shared_ptr<Task> start(std::string name, std::function<void()> body);
  // Waits for its end.
  void join(Task& task);

  // From outside: runs the tasks until all have ended. Fails when all wait for ever or a limit is passed, naming who
  // waits for what; their stacks are then left as they are, and neither they nor this scheduler run again.
  Status run();
  bool is_dead() const { return !failure_.ok(); }

  // Looking at the clock takes some time, so that who looks again and again sees it move.
  Time look_at_clock();
  Time now() const { return now_; }

  // The running task; null outside.
  Task* current() const { return current_; }
  // Lets another task run, perhaps.
  void yield();
  // A place where the real system might run another thread: yields now and then.
  void preempt();
  // Until resume() or that time. In a dead simulation, and there only, returns early.
  void wait(Time until, std::string waits_for);
  void resume(Task* task);

  // Calls `event` at that time, whoever runs then. Events of the same time keep their order.
  void at(Time time, std::function<void()> event);
  // Calls the events that are due.
  void run_events();

  uint64_t random(uint64_t below);
  // Makes this a part of what trace_hash() says.
  void trace(uint64_t what);
  uint64_t trace_hash() const { return trace_hash_; }

 private:
  Fiber& run_task(Task& task, std::function<void()> body);
  void let_go();
  Fiber& next_fiber();
  Task* choose();
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
  std::vector<std::unique_ptr<Fiber>> ended_;
  Status failure_;
  Task* current_ = nullptr;
  Fiber* outside_ = nullptr;  // who called run()
};

}  // namespace hocket
