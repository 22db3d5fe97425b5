// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/caught.h"
#include "comm/drive.h"

namespace hocket {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;

// The engine shares the cores with the threads that compute: it spins only briefly.
constexpr Duration kSpin = microseconds(20);

bool has_ended(const Batch& batch) {
  return std::all_of(batch.begin(), batch.end(), [](const auto& work) { return work->ended(); });
}

}  // namespace

void Queue::wait(uint64_t mark) {
  if (!in_its_process()) return;
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return done(mark); });
}

bool Queue::wait_for(uint64_t mark, Duration limit) {
  if (!in_its_process()) return done(mark);
  std::unique_lock lock(mutex_);
  return ended_.wait_for(lock, limit, [&] { return done(mark); });
}

Status Queue::status() const {
  if (!in_its_process()) {
    return {Code::kInvalidUsage,
            fmt::format("queue: it is of process {}, which was forked: this is process {}", process_, ::getpid())};
  }
  const std::lock_guard lock(mutex_);
  return status_;
}

Result<std::unique_ptr<Engine>> Engine::start(System& system) {
  Result<std::unique_ptr<Poller>> poller = system.network.make_poller();
  if (!poller.ok()) return poller.status();
  std::unique_ptr<Engine> engine(new Engine(system, std::move(*poller)));
  engine->thread_ = system.threads.start("hocket-queues", [self = engine.get()] { self->run(); });
  if (engine->thread_ == nullptr) return Status(Code::kSystem, "no thread to run queues");
  return engine;
}

Engine::Engine(System& system, std::unique_ptr<Poller> poller)
    : system_(system), poller_(std::move(poller)), wait_(system, false, kSpin) {}

Engine::~Engine() {
  stopping_ = true;
  poller_->wake();
  thread_.reset();
}

Submission::Submission(std::shared_ptr<Queue> to, Batch what) {
  queue.push_back(std::move(to));
  batch.push_back(std::move(what));
}

void Engine::submit(Submission submission) noexcept {
  {
    const std::lock_guard lock(mutex_);
    Queue& queue = *submission.queue.front();
    if (queue.batches_.empty()) queues_.splice(queues_.end(), submission.queue);
    queue.batches_.splice(queue.batches_.end(), submission.batch);
    ++queue.submitted_;
  }
  news_ = true;
  poller_->wake();
}

void Engine::run() {
  const auto without_memory = [this](const Status&) {
    abandon(system_, heads_);
    news_ = true;
  };
  while (!stopping_) caught([this] { turn(); }, without_memory);
}

void Engine::turn() {
  if (news_.exchange(false)) retire();
  if (heads_.empty()) {
    poller_->wait(system_.clock.now() + hours(1));
    return;
  }
  if (advance_all(heads_)) {
    wait_.progressed();
  } else {
    wait_for_news(system_, heads_, wait_, poller_.get());
  }
  retire_heads();
}

void Engine::collect_heads() {
  const std::lock_guard lock(mutex_);
  heads_.clear();
  for (const auto& queue : queues_) {
    for (const auto& work : queue->batches_.front()) {
      if (!work->ended()) heads_.push_back(work.get());
    }
  }
}

void Engine::retire_heads() {
  if (std::any_of(heads_.begin(), heads_.end(), [](const Work* work) { return work->ended(); })) retire();
}

// Takes ended batches off their queues, tells who waits for them, and looks at what comes next.
void Engine::retire() {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& queue : queues_) {
      while (!queue->batches_.empty() && has_ended(queue->batches_.front())) {
        const Batch batch = std::move(queue->batches_.front());
        queue->batches_.pop_front();
        const std::lock_guard queue_lock(queue->mutex_);
        for (const auto& work : batch) {
          if (queue->status_.ok() && !work->status().ok()) queue->status_ = work->status();
        }
        queue->completed_.fetch_add(1, std::memory_order_release);
        queue->ended_.notify_all();
      }
    }
    std::erase_if(queues_, [](const auto& queue) { return queue->batches_.empty(); });
  }
  collect_heads();
}

}  // namespace hocket
