// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How a task lets go, who goes on, and what happens when there is nobody.
#include "base/simulated_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace hocket {
namespace {

constexpr Duration kCostOfLooking = std::chrono::nanoseconds(20);
constexpr Duration kCostOfYielding = std::chrono::nanoseconds(200);
constexpr uint64_t kYieldsPerPreempt = 8;  // one in so many places

// Not zero, so that a default Time is in the past.
constexpr Time kStart{std::chrono::seconds(1)};

}  // namespace

SimulatedScheduler::SimulatedScheduler(uint64_t seed, Duration time_limit, uint64_t step_limit)
    : time_limit_(time_limit), step_limit_(step_limit), generator_(seed), now_(kStart) {}

std::shared_ptr<SimulatedScheduler::Task> SimulatedScheduler::start(std::string name, std::function<void()> body) {
  auto task = std::make_shared<Task>();
  task->name = std::move(name);
  task->number = ++tasks_started_;
  ended_.clear();  // nobody is on their stacks any more: who runs has not ended, and events start no task
  task->fiber = Fiber::make([self = shared_from_this(), task, body = std::move(body)]() mutable -> Fiber& {
    return self->run_task(*task, std::move(body));
  });
  if (task->fiber == nullptr) return nullptr;
  tasks_.push_back(task);
  return task;
}

Fiber& SimulatedScheduler::run_task(Task& task, std::function<void()> body) {
  body();
  body = nullptr;  // what it holds goes while this task runs
  task.state = Task::State::kEnded;
  for (Task* joiner : task.joiners) resume(joiner);
  std::erase_if(tasks_, [&](const auto& each) { return each.get() == &task; });
  ended_.push_back(std::move(task.fiber));
  return next_fiber();
}

void SimulatedScheduler::join(Task& task) {
  while (task.state != Task::State::kEnded) {
    if (is_dead()) return;
    task.joiners.push_back(current_);
    wait(Time::max(), fmt::format("the end of '{}'", task.name));
  }
}

Status SimulatedScheduler::run() {
  if (is_dead()) return failure_;
  Fiber outside;
  outside_ = &outside;
  let_go();
  ended_.clear();
  return failure_;
}

Time SimulatedScheduler::look_at_clock() {
  if (current_ != nullptr) now_ += kCostOfLooking;
  return now_;
}

void SimulatedScheduler::yield() {
  if (current_ == nullptr) return;
  now_ += kCostOfYielding;
  let_go();
}

void SimulatedScheduler::preempt() {
  if (random(kYieldsPerPreempt) == 0) yield();
}

void SimulatedScheduler::wait(Time until, std::string waits_for) {
  if (is_dead()) return;
  if (current_ == nullptr) {
    std::fprintf(stderr, "hocket: internal error: a thread outside a simulation waits for %s\n", waits_for.c_str());
    std::abort();
  }
  now_ += kCostOfYielding;  // also a wait without end that ends at once takes time
  current_->state = Task::State::kWaiting;
  current_->until = until;
  current_->waits_for = std::move(waits_for);
  let_go();
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

// Returns when who called goes on.
void SimulatedScheduler::let_go() {
  Fiber& own = current_ == nullptr ? *outside_ : *current_->fiber;
  Fiber& next = next_fiber();
  if (&next != &own) own.go_on_with(next);
}

Fiber& SimulatedScheduler::next_fiber() {
  current_ = choose();
  if (current_ == nullptr) return *outside_;
  current_->state = Task::State::kReady;
  trace(current_->number);
  return *current_->fiber;
}

// Null when nobody can run any more: all have ended, or the simulation has failed.
SimulatedScheduler::Task* SimulatedScheduler::choose() {
  for (;;) {
    run_events();
    if (tasks_.empty()) return nullptr;
    if (++steps_ > step_limit_) return fail(fmt::format("no end after {} steps", step_limit_)), nullptr;
    if (now_ - kStart > time_limit_)
      return fail(fmt::format("no end after {} s of its time", seconds(time_limit_))), nullptr;
    const auto is_ready = [this](const auto& task) {
      return task->state == Task::State::kReady || task->until <= now_;
    };
    const auto ready = std::count_if(tasks_.begin(), tasks_.end(), is_ready);
    if (ready > 0) {
      auto left = random(static_cast<uint64_t>(ready));
      return std::find_if(tasks_.begin(), tasks_.end(), [&](const auto& task) { return is_ready(task) && left-- == 0; })
          ->get();
    }
    const Time next = next_time();
    if (next == Time::max()) return fail("deadlock"), nullptr;
    now_ = next;
  }
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
