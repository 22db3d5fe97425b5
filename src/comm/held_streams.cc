// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/held_streams.h"

#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace hocket {
namespace {

struct State {
  std::mutex mutex;  // who is alone has it
  std::condition_variable none;
  size_t held = 0;  // guarded by mutex
};

// Never destroyed: engines may still run when the process ends.
State& state() {
  static auto& the = *new State;
  return the;
}

}  // namespace

void HeldStreams::begin() {
  const std::lock_guard lock(state().mutex);
  ++state().held;
}

void HeldStreams::end() noexcept {
  const std::lock_guard lock(state().mutex);
  if (--state().held == 0) state().none.notify_all();
}

void HeldStreams::wait_to_be_alone(const std::function<void()>& function) {
  std::unique_lock lock(state().mutex);
  state().none.wait(lock, [] { return state().held == 0; });
  function();
}

}  // namespace hocket
