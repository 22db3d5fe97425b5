// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/held_streams.h"

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace hocket {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  size_t held = 0;        // guarded by mutex
  bool is_alone = false;  // somebody; guarded by mutex
};

// Never destroyed: engines may still run when the process ends.
State& state() {
  static auto& the = *new State;
  return the;
}

}  // namespace

void HeldStreams::begin() {
  std::unique_lock lock(state().mutex);
  state().changed.wait(lock, [] { return !state().is_alone; });
  ++state().held;
}

void HeldStreams::begin_at_once() noexcept {
  const std::lock_guard lock(state().mutex);
  ++state().held;
}

void HeldStreams::end() noexcept {
  const std::lock_guard lock(state().mutex);
  if (--state().held == 0) state().changed.notify_all();
}

void HeldStreams::wait_to_be_alone(const std::function<void()>& function) {
  std::unique_lock lock(state().mutex);
  state().changed.wait(lock, [] { return state().held == 0 && !state().is_alone; });
  state().is_alone = true;
  lock.unlock();
  function();
  lock.lock();
  state().is_alone = false;
  state().changed.notify_all();
}

}  // namespace hocket
