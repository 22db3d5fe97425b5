// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "lane.h"

#include <condition_variable>
#include <thread>
#include <utility>

#include "errors.h"
#include "work.h"

namespace hocket_torch {

// ---- Completer

struct Completer::State {
  std::mutex mutex;
  std::condition_variable news;
  std::deque<c10::intrusive_ptr<Work>> works;
  bool is_led = false;  // a thread waits for the first work
  int idle = 0;
  bool stopping = false;
};

Completer::Completer() : state_(std::make_shared<State>()) {}

Completer::~Completer() {
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->news.notify_all();
}

void Completer::add(c10::intrusive_ptr<Work> work) {
  const std::lock_guard lock(state_->mutex);
  state_->works.push_back(std::move(work));
  if (state_->is_led) return;
  // Detached, as the last user of a lane may be a thread that completes.
  if (state_->idle == 0) std::thread(run, state_).detach();
  state_->news.notify_one();
}

void Completer::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    ++state->idle;
    state->news.wait(lock, [&] { return (!state->is_led && !state->works.empty()) || state->stopping; });
    --state->idle;
    if (state->works.empty()) return;  // stopping
    state->is_led = true;
    c10::intrusive_ptr<Work> work = std::move(state->works.front());
    state->works.pop_front();
    lock.unlock();
    work->settle();
    lock.lock();
    state->is_led = false;
    if (!state->works.empty()) {
      if (state->idle == 0) std::thread(run, state).detach();
      state->news.notify_one();
    }
    lock.unlock();
    work->complete_future();
    work.reset();
    lock.lock();
    // One thread is enough to wait for what comes next.
    if (state->idle > 0) return;
  }
}

// ---- Lane

Lane::Lane() { check(hocketQueueCreate(&queue_)); }

Lane::~Lane() { hocketQueueDestroy(queue_); }

uint64_t Lane::mark() const {
  uint64_t mark = 0;
  check(hocketQueueMark(queue_, &mark));
  return mark;
}

bool Lane::done(uint64_t mark) const {
  int done = 0;
  hocketQueueTest(queue_, mark, &done);
  return done != 0;
}

hocketResult_t Lane::wait(uint64_t mark, std::chrono::milliseconds limit, int* done) const {
  if (limit.count() > 0) return hocketQueueWaitFor(queue_, mark, limit.count(), done);
  *done = 1;
  return hocketQueueWait(queue_, mark);
}

void Lane::hold(c10::intrusive_ptr<Work> work) {
  const std::lock_guard lock(mutex_);
  while (!under_way_.empty() && done(under_way_.front()->mark())) under_way_.pop_front();
  under_way_.push_back(std::move(work));
}

void Lane::complete(c10::intrusive_ptr<Work> work) {
  const std::lock_guard lock(mutex_);
  if (completer_ == nullptr) completer_ = std::make_unique<Completer>();
  completer_->add(std::move(work));
}

// ---- Lanes

const std::shared_ptr<Lane>& Lanes::of(ByPeer& lanes, int peer) {
  std::shared_ptr<Lane>& lane = lanes[peer];
  if (lane == nullptr) lane = std::make_shared<Lane>();
  return lane;
}

const std::shared_ptr<Lane>& Lanes::idle() {
  for (const std::shared_ptr<Lane>& lane : of_batches_) {
    if (lane->idle()) return lane;
  }
  return of_batches_.emplace_back(std::make_shared<Lane>());
}

}  // namespace hocket_torch
