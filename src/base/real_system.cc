// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The real clock and threads, and the system that ties the real parts together.
#include "base/real_system.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <thread>

namespace hocket {
namespace {

class RealClock : public Clock {
 public:
  Time now() override { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); }
};

class RealThread : public Thread {
 public:
  explicit RealThread(std::thread thread) : thread_(std::move(thread)) {}
  ~RealThread() override { thread_.join(); }

 private:
  std::thread thread_;
};

// The program's signal handlers run on the program's own threads: a new thread inherits this block.
class SignalBlock {
 public:
  SignalBlock() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

class RealThreads : public Threads {
 public:
  std::unique_ptr<Thread> start(std::string name, std::function<void()> body) override {
    SignalBlock block;
    try {
      std::thread thread(std::move(body));
      constexpr size_t kLongestName = 15;  // of the kernel
      pthread_setname_np(thread.native_handle(), name.substr(0, kLongestName).c_str());
      return std::make_unique<RealThread>(std::move(thread));
    } catch (const std::system_error&) {
      return nullptr;
    }
  }
  void yield() override { std::this_thread::yield(); }
  void sleep_until(Time time) override { std::this_thread::sleep_until(time); }
};

}  // namespace

System& real_system() {
  // Never destroyed: threads may use it until the process is gone.
  static RealClock& clock = *new RealClock;
  static RealThreads& threads = *new RealThreads;
  static System& system = *new System{clock, threads, real_network(), real_memory()};
  return system;
}

}  // namespace hocket
