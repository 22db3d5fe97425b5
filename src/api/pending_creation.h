// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A communicator that is being created on a thread of its own, while its handle exists already. In a process that was
// forked meanwhile nobody creates, and nothing locks: that thread may have held the lock.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/status.h"

namespace hocket {

class Communicator;
struct Session;

class PendingCreation {
 public:
  // Null: a rank that takes part and gets no communicator.
  explicit PendingCreation(Session* session) : session_(session) {}

  // By the thread that creates: opens the session, unless that was abandoned.
  void end(Result<std::shared_ptr<Communicator>> made);
  // From now on the session is left alone; what is still created is aborted.
  void abandon();
  // Until it has ended or was abandoned.
  void wait();
  // hocketInProgress's text while it goes on; then the failure, if any.
  Status status() const;
  bool under_way() const;
  // The thread that creates is not in a process that was forked.
  bool in_its_process() const;

 private:
  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable changed_;
  Session* session_;        // guarded by mutex_
  bool abandoned_ = false;  // guarded by mutex_
  Status failure_;          // written before ended_
  std::atomic<bool> ended_ = false;
};

}  // namespace hocket
