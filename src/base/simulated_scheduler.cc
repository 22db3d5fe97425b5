// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The baton: how it is passed, to whom, and what happens when there is nobody.
#include "base/simulated_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace hocket {
namespace {

constexpr Duration kCostOfLooking = std::chrono::nanoseconds(20);
constexpr Duration kCostOfYielding = std::chrono::nanoseconds(200);
constexpr uint64_t kYieldsPerPreempt = 8;  // one in so many places

// Not zero, so that a default Time is in the past.
constexpr Time kStart{std::chrono::seconds(1)};

thread_local SimulatedScheduler::Task* current_task = nullptr;

}  // namespace

SimulatedScheduler::SimulatedScheduler(uint64_t seed, Duration time_limit, uint64_t step_limit)
    : time_limit_(time_limit), step_limit_(step_limit), generator_(seed), now_(kStart) {}

std::shared_ptr<SimulatedScheduler::Task> SimulatedScheduler::start(std::string name, std::function<void()> body) {
  auto task = std::make_shared<Task>();
  task->name = std::move(name);
  task->number = ++tasks_started_;
  tasks_.push_back(task);
  try {
    task->thread = std::thread([self = shared_from_this(), task, body = std::move(body)]() mutable {
      self->run_task(*task, std::move(body));
    });
  } catch (const std::system_error&) {
    tasks_.pop_back();
    return nullptr;
  }
  return task;
}

void SimulatedScheduler::run_task(Task& task, std::function<void()> body) {
  current_task = &task;
  {
    std::unique_lock lock(mutex_);
    task.turn.wait(lock, [&] { return holder_ == &task; });
  }
  body();
  body = nullptr;  // what it holds goes while this thread has the baton
  task.state = Task::State::kEnded;
  for (Task* joiner : task.joiners) resume(joiner);
  const auto place = std::find_if(tasks_.begin(), tasks_.end(), [&](const auto& each) { return each.get() == &task; });
  ended_.push_back(std::move(*place));
  tasks_.erase(place);
  pass_baton(&task);
}

void SimulatedScheduler::join(Task& task) {
  while (task.state != Task::State::kEnded) {
    if (is_dead()) return;
    task.joiners.push_back(current_task);
    wait(Time::max(), fmt::format("the end of '{}'", task.name));
  }
  if (task.thread.joinable()) task.thread.join();
}

Status SimulatedScheduler::run() {
  if (is_dead()) return failure_;
  pass_baton(nullptr);
  for (const auto& task : ended_) {
    if (task->thread.joinable()) task->thread.join();
  }
  ended_.clear();
  for (const auto& task : tasks_) task->thread.detach();  // none, unless the simulation is dead
  return failure_;
}

Time SimulatedScheduler::look_at_clock() {
  if (current_task != nullptr) now_ += kCostOfLooking;
  return now_;
}

SimulatedScheduler::Task* SimulatedScheduler::current() { return current_task; }

void SimulatedScheduler::yield() {
  if (current_task == nullptr) return;
  now_ += kCostOfYielding;
  pass_baton(current_task);
}

void SimulatedScheduler::preempt() {
  if (random(kYieldsPerPreempt) == 0) yield();
}

void SimulatedScheduler::wait(Time until, std::string waits_for) {
  if (is_dead()) return;
  if (current_task == nullptr) {
    std::fprintf(stderr, "hocket: internal error: a thread outside a simulation waits for %s\n", waits_for.c_str());
    std::abort();
  }
  now_ += kCostOfYielding;  // also a wait without end that ends at once takes time
  current_task->state = Task::State::kWaiting;
  current_task->until = until;
  current_task->waits_for = std::move(waits_for);
  pass_baton(current_task);
}

void SimulatedScheduler::resume(Task* task) {
  if (task->state == Task::State::kWaiting) task->state = Task::State::kReady;
}

void SimulatedScheduler::at(Time time, std::function<void()> event) { events_.emplace(time, std::move(event)); }

void SimulatedScheduler::run_events() {
  while (!events_.empty() && events_.begin()->first <= now_) {
    const std::function<void()> event = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    event();
  }
}

uint64_t SimulatedScheduler::random(uint64_t below) { return generator_() % below; }

void SimulatedScheduler::trace(uint64_t what) {
  const auto time = static_cast<uint64_t>(now_.time_since_epoch().count());
  for (const uint64_t each : {time, what}) {
    trace_hash_ = (trace_hash_ ^ each) * 0x9E3779B97F4A7C15u;
    trace_hash_ ^= trace_hash_ >> 29;
  }
}

// Returns when `self` holds the baton again; at once when it has ended.
void SimulatedScheduler::pass_baton(Task* self) {
  Task* next = choose();
  const bool has_ended = self != nullptr && self->state == Task::State::kEnded;
  if (next != nullptr) {
    next->state = Task::State::kReady;
    trace(next->number);
  }
  std::unique_lock lock(mutex_);
  holder_ = next;
  (next != nullptr ? next->turn : outside_turn_).notify_all();
  if (has_ended) return;
  (self != nullptr ? self->turn : outside_turn_).wait(lock, [&] { return holder_ == self; });
}

// Null when nobody can run any more: all have ended, or the simulation has failed.
SimulatedScheduler::Task* SimulatedScheduler::choose() {
  for (;;) {
    run_events();
    if (tasks_.empty()) return nullptr;
    if (++steps_ > step_limit_) return fail(fmt::format("no end after {} steps", step_limit_)), nullptr;
    if (now_ - kStart > time_limit_)
      return fail(fmt::format("no end after {} s of its time", seconds(time_limit_))), nullptr;
    const std::vector<Task*> ready = ready_tasks();
    if (!ready.empty()) return ready[random(ready.size())];
    const Time next = next_time();
    if (next == Time::max()) return fail("deadlock"), nullptr;
    now_ = next;
  }
}

std::vector<SimulatedScheduler::Task*> SimulatedScheduler::ready_tasks() const {
  std::vector<Task*> ready;
  for (const auto& task : tasks_) {
    if (task->state == Task::State::kReady || task->until <= now_) ready.push_back(task.get());
  }
  return ready;
}

Time SimulatedScheduler::next_time() const {
  Time next = events_.empty() ? Time::max() : events_.begin()->first;
  for (const auto& task : tasks_) next = std::min(next, task->until);
  return next;
}

void SimulatedScheduler::fail(const std::string& how) {
  std::string tasks;
  for (const auto& task : tasks_) {
    const bool runs = task->state == Task::State::kReady;
    tasks += fmt::format("{}'{}' {}{}", tasks.empty() ? "" : ", ", task->name, runs ? "runs" : "waits for ",
                         runs ? "" : task->waits_for);
  }
  failure_ = Status(Code::kTimeout, fmt::format("simulation: {}: {}", how, tasks));
}

}  // namespace hocket
