// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/cuda/fake_streams.h"

#include <chrono>

namespace hocket::cuda {
namespace {

// How often a stream looks at a word that it waits for.
constexpr auto kLook = std::chrono::microseconds(20);

}  // namespace

OpaqueStream::OpaqueStream(OpaqueContext& context_in, unsigned flags_in)
    : context(context_in), flags(flags_in), thread_([this] { run(); }) {}

OpaqueStream::~OpaqueStream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void OpaqueStream::put(Task task) {
  if (captured != nullptr) {
    captured->tasks.push_back(std::move(task));
    return;
  }
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

bool OpaqueStream::is_idle() {
  const std::lock_guard lock(mutex_);
  return tasks_.empty() || context.broken;
}

void OpaqueStream::synchronize() {
  std::unique_lock lock(mutex_);
  while (!tasks_.empty() && !context.broken) changed_.wait_for(lock, std::chrono::milliseconds(10));
}

void OpaqueStream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty() || (ending_ && context.broken)) return;
    Task& task = tasks_.front();  // others only add behind it
    lock.unlock();
    const bool done = !context.broken && task();
    if (!done) std::this_thread::sleep_for(kLook);
    lock.lock();
    if (!done) continue;
    tasks_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace hocket::cuda
