// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One turn of the loop: what was posted, then sleep, then news, then what was due before that news was fetched: after a
// time in which the process did not run, who has a deadline hears first what came meanwhile. Callbacks may do anything,
// also to themselves, so nothing here holds an iterator or a lock across one. None of them can end the thread by lack
// of memory.
#include "base/reactor.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "base/caught.h"

namespace hocket {

Reactor::Reactor(System& system) : system_(system), poller_(system.network.make_poller()) {}

Reactor::~Reactor() { stop(); }

Status Reactor::start(const std::string& thread_name, Function on_exhausted) {
  HOCKET_TRY(poller_.status());
  on_exhausted_ = std::move(on_exhausted);
  running_.store(true);
  thread_ = system_.threads.start(thread_name, [this] { run(); });
  if (thread_ != nullptr) return {};
  running_.store(false);
  return {Code::kSystem, fmt::format("cannot start the thread '{}'", thread_name)};
}

void Reactor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (poller_.ok()) (*poller_)->wake();
  if (!in_loop()) thread_.reset();
}

void Reactor::post(Function function) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    is_first = posted_.empty();
    posted_.push_back(std::move(function));
  }
  if (is_first && poller_.ok()) (*poller_)->wake();
}

Status Reactor::watch(Handle handle, Function on_news) {
  check_thread("watch");
  HOCKET_TRY(poller_.status());
  HOCKET_TRY((*poller_)->add(handle));
  watches_[handle] = {turn_, std::make_shared<Function>(std::move(on_news))};
  return {};
}

void Reactor::unwatch(Handle handle) {
  check_thread("unwatch");
  if (watches_.erase(handle) > 0) (*poller_)->remove(handle);
}

TimerId Reactor::at(Time time, Function function) {
  check_thread("at");
  return add_timer(time, {std::move(function), {}});
}

TimerId Reactor::every(Duration period, Function function) {
  check_thread("every");
  return add_timer(system_.clock.now() + period, {std::move(function), period});
}

TimerId Reactor::add_timer(Time time, Timer timer) {
  const TimerId id = ++last_timer_;
  timer_times_.emplace(id, time);
  timers_.emplace(TimerKey(time, id), std::move(timer));
  return id;
}

void Reactor::cancel(TimerId timer) {
  check_thread("cancel");
  const auto found = timer_times_.find(timer);
  if (found == timer_times_.end()) return;
  timers_.erase(TimerKey(found->second, timer));
  timer_times_.erase(found);
}

void Reactor::run() {
  loop_thread_.store(system_.threads.self());
  for (;;) {
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      last = stopping_;
    }
    if (std::exchange(exhausted_, false)) attempt(on_exhausted_);
    run_posted();
    if (last) break;
    const Time asked = system_.clock.now();
    attempt([this] { dispatch(wait_for_news()); });
    run_timers(asked);
  }
  loop_thread_.store(nullptr);
  running_.store(false);
}

void Reactor::attempt(const Function& function) noexcept {
  const auto run = [&] {
    function();
    return Status();
  };
  if (!tried(run).ok()) exhausted_ = true;
}

std::vector<Handle> Reactor::wait_for_news() {
  if (exhausted_) return (*poller_)->wait(Time());
  return (*poller_)->wait(timers_.empty() ? Time::max() : timers_.begin()->first.first);
}

void Reactor::run_posted() {
  std::vector<Function> batch;
  {
    const std::lock_guard lock(mutex_);
    batch.swap(posted_);
  }
  for (Function& each : batch) {
    attempt(each);
    each = nullptr;  // what it holds goes with it, not with the batch
  }
}

void Reactor::run_timers(Time due) {
  const TimerId newest = last_timer_;  // those that start now wait for the next turn, so that news gets its turn too
  for (auto next = timers_.begin(); next != timers_.end() && next->first.first <= due;) {
    if (next->first.second > newest) {
      ++next;
      continue;
    }
    run_timer(timers_.extract(next));
    next = timers_.begin();
  }
}

void Reactor::run_timer(Timers::node_type timer) {
  const TimerId id = timer.key().second;
  const Duration period = timer.mapped().period;
  if (period == Duration()) timer_times_.erase(id);
  attempt(timer.mapped().function);
  const auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return;  // once, or it has cancelled itself
  found->second = system_.clock.now() + period;
  timer.key().first = found->second;
  timers_.insert(std::move(timer));
}

void Reactor::dispatch(const std::vector<Handle>& news) {
  ++turn_;
  for (const Handle handle : news) {
    const auto found = watches_.find(handle);
    // A watch that began after the wait: this is news of another object, whose handle had the same number.
    if (found == watches_.end() || found->second.since == turn_) continue;
    const std::shared_ptr<Function> on_news = found->second.on_news;
    attempt(*on_news);
  }
}

void Reactor::check_thread(const char* what) const {
  if (!running_.load() || in_loop()) return;
  std::fprintf(stderr, "hocket: internal error: reactor: %s() called outside its loop\n", what);
  std::abort();
}

}  // namespace hocket
