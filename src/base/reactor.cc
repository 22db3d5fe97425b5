// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One turn of the loop: what was posted, what is due, then sleep, then news. Callbacks may do anything, also to
// themselves, so nothing here holds an iterator or a lock across one.
#include "base/reactor.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace hocket {

Reactor::Reactor(System& system) : system_(system), poller_(system.network.make_poller()) {}

Reactor::~Reactor() { stop(); }

Status Reactor::start(const std::string& thread_name) {
  HOCKET_TRY(poller_.status());
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
  const TimerId timer = ++last_timer_;
  timers_.emplace(TimerKey(time, timer), std::move(function));
  timer_times_.emplace(timer, time);
  return timer;
}

void Reactor::cancel(TimerId timer) {
  check_thread("cancel");
  const auto found = timer_times_.find(timer);
  if (found == timer_times_.end()) return;
  timers_.erase(TimerKey(found->second, timer));
  timer_times_.erase(found);
}

void Reactor::run() {
  loop_thread_.store(std::this_thread::get_id());
  for (;;) {
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      last = stopping_;
    }
    run_posted();
    if (last) break;
    run_timers();
    const std::vector<Handle> news = (*poller_)->wait(timers_.empty() ? Time::max() : timers_.begin()->first.first);
    dispatch(news);
  }
  loop_thread_.store({});
  running_.store(false);
}

void Reactor::run_posted() {
  std::vector<Function> batch;
  {
    const std::lock_guard lock(mutex_);
    batch.swap(posted_);
  }
  for (Function& each : batch) {
    each();
    each = nullptr;  // what it holds goes with it, not with the batch
  }
}

void Reactor::run_timers() {
  const Time now = system_.clock.now();
  const TimerId newest = last_timer_;  // those that start now wait for the next turn, so that news gets its turn too
  for (auto next = timers_.begin(); next != timers_.end() && next->first.first <= now;) {
    if (next->first.second > newest) {
      ++next;
      continue;
    }
    Function function = std::move(next->second);
    timer_times_.erase(next->first.second);
    timers_.erase(next);
    function();
    next = timers_.begin();
  }
}

void Reactor::dispatch(const std::vector<Handle>& news) {
  ++turn_;
  for (const Handle handle : news) {
    const auto found = watches_.find(handle);
    // A watch that began after the wait: this is news of another object, whose handle had the same number.
    if (found == watches_.end() || found->second.since == turn_) continue;
    const std::shared_ptr<Function> on_news = found->second.on_news;
    (*on_news)();
  }
}

void Reactor::check_thread(const char* what) const {
  if (!running_.load() || in_loop()) return;
  std::fprintf(stderr, "hocket: internal error: reactor: %s() called outside its loop\n", what);
  std::abort();
}

}  // namespace hocket
