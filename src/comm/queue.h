// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Queues: operations issued to a queue run in order, in the background. One thread, the engine, drives the heads of all
// queues together, so that no order in which queues were filled can make them wait for each other.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "base/system.h"
#include "comm/work.h"
#include "execute/wait.h"

namespace hocket {

// Operations that run at the same time.
using Batch = std::vector<std::unique_ptr<Work>>;

class Queue;

// A batch on its way to a queue, with all the memory that takes.
struct Submission {
  Submission(std::shared_ptr<Queue> to, Batch what);
  std::list<std::shared_ptr<Queue>> queue;
  std::list<Batch> batch;
};

// In a process that was forked nobody runs what is under way: nothing waits for it there.
class Queue {
 public:
  bool in_its_process() const { return ::getpid() == process_; }
  // Names all that was submitted so far. Any thread.
  uint64_t mark() const { return submitted_.load(); }
  bool done(uint64_t mark) const { return completed_.load(std::memory_order_acquire) >= mark; }
  // Blocks until done(mark), or not at all: status() says why.
  void wait(uint64_t mark);
  // The same for at most so long: false when that was too short.
  bool wait_for(uint64_t mark, Duration limit);
  // The first failure among the operations that ended.
  Status status() const;

 private:
  friend class Engine;

  const pid_t process_ = ::getpid();
  std::list<Batch> batches_;  // guarded by the engine's mutex
  std::atomic<uint64_t> submitted_{0};
  std::atomic<uint64_t> completed_{0};
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  Status status_;  // guarded by mutex_
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> start(System& system);
  ~Engine();

  // Issued operations, to run after all that the queue holds already. Any thread.
  void submit(Submission submission) noexcept;
  // Something that a submitted operation waits for may have come. Any thread.
  void wake() { poller_->wake(); }

 private:
  Engine(System& system, std::unique_ptr<Poller> poller);
  void run();
  void turn();
  void collect_heads();
  void retire_heads();
  void retire();

  System& system_;
  std::unique_ptr<Poller> poller_;
  std::mutex mutex_;
  std::list<std::shared_ptr<Queue>> queues_;  // that hold batches; guarded by mutex_
  std::atomic<bool> news_{false};
  std::atomic<bool> stopping_{false};
  std::vector<Work*> heads_;  // the engine's thread only
  Wait wait_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace hocket
