// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/driver_thread.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "base/caught.h"
#include "base/log.h"

namespace hocket {
namespace {

class DriverThread {
 public:
  bool post(System& system, std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    if (thread_ == nullptr) thread_ = system.threads.start("hocket-driver", [this] { run(); });
    if (thread_ == nullptr) return false;
    posted_.push_back(std::move(function));
    changed_.notify_one();
    return true;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !posted_.empty(); });
      std::function<void()> next = std::move(posted_.front());
      posted_.pop_front();
      lock.unlock();
      const Status status = tried([&] { return next(), Status(); });
      if (!status.ok()) log_warn("what was to be done by the CUDA driver beside was not: {}", status.message());
      next = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;  // guarded by mutex_
  std::unique_ptr<Thread> thread_;            // guarded by mutex_
};

}  // namespace

bool post_to_driver_thread(System& system, std::function<void()> function) {
  // Never destroyed: at the end of the process the driver may still be at work.
  static auto& only = *new DriverThread;
  return only.post(system, std::move(function));
}

}  // namespace hocket
