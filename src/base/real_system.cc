// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The real clock and threads, and the system that ties the real parts together.
#include "base/real_system.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
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
  ~RealThread() override {
    if (thread_.joinable()) thread_.join();
  }
  // Of the last so many characters of the name the kernel keeps none.
  void start(std::string name, std::function<void()> body) {
    constexpr size_t kLongestName = 15;
    name.resize(std::min(name.size(), kLongestName));
    thread_ = std::thread(std::move(body));
    pthread_setname_np(thread_.native_handle(), name.c_str());
  }

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

std::string usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) {
    for (int i = 0; i < ::sysconf(_SC_NPROCESSORS_ONLN) && i < CPU_SETSIZE; ++i) CPU_SET(i, &set);
  }
  constexpr int kBits = 4;  // of a digit
  std::string digits;
  for (int first = 0; first + kBits <= CPU_SETSIZE; first += kBits) {
    unsigned value = 0;
    for (int bit = 0; bit < kBits; ++bit) value |= (CPU_ISSET(first + bit, &set) ? 1u : 0u) << bit;
    digits += "0123456789abcdef"[value];
  }
  const size_t last = digits.find_last_not_of('0');
  return digits.substr(0, last == std::string::npos ? 0 : last + 1);
}

class RealThreads : public Threads {
 public:
  std::unique_ptr<Thread> start(std::string name, std::function<void()> body) override {
    SignalBlock block;
    auto made = std::make_unique<RealThread>();
    try {
      made->start(std::move(name), std::move(body));
    } catch (const std::system_error&) {
      return nullptr;
    }
    return made;
  }
  void yield() override { std::this_thread::yield(); }
  void sleep_until(Time time) override { std::this_thread::sleep_until(time); }
  const void* self() override {
    static thread_local const char place = 0;
    return &place;
  }
  HostInfo host() override { return {host_name(), boot_id(), usable_processors()}; }
};

}  // namespace

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

System& real_system() {
  // Never destroyed: threads may use it until the process is gone.
  static RealClock& clock = *new RealClock;
  static RealThreads& threads = *new RealThreads;
  static System& system = *new System{clock, threads, real_network(), real_memory()};
  return system;
}

}  // namespace hocket
