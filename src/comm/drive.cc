// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/drive.h"

#include <algorithm>
#include <vector>

#include "comm/communicator.h"

namespace hocket {
namespace {

using std::chrono::microseconds;

// With several communicators only one poller is watched; the others are looked at this often.
constexpr Duration kSharedNap = microseconds(500);

void nap(System& system, Communicator& communicator, Time until) {
  std::unique_lock lock(communicator.poller_mutex(), std::try_to_lock);
  if (lock.owns_lock()) {
    communicator.mesh().poller().wait(until);
  } else {
    system.threads.sleep_until(until);
  }
}

// Watches every communicator's poller for the time of one nap.
void nap_on_all(Poller& all, std::span<Operation* const> operations, Time until) {
  std::vector<Handle> watched;
  for (Operation* operation : operations) {
    if (operation->ended()) continue;
    const Handle handle = operation->communicator().mesh().poller().handle();
    if (std::find(watched.begin(), watched.end(), handle) == watched.end() && all.add(handle).ok())
      watched.push_back(handle);
  }
  all.wait(until);
  for (const Handle handle : watched) all.remove(handle);
}

void sleep(System& system, std::span<Operation* const> operations, Wait& wait, Time now, Poller* all) {
  for (Operation* operation : operations) operation->set_waiting(true);
  // What came before the announcement would not wake us.
  if (!advance_all(operations)) {
    Communicator& first = operations.front()->communicator();
    const bool shared = std::any_of(operations.begin(), operations.end(),
                                    [&](Operation* operation) { return &operation->communicator() != &first; });
    const Time end = wait.nap_end(now);
    if (all != nullptr) {
      nap_on_all(*all, operations, end);
    } else {
      nap(system, first, shared ? std::min(end, now + kSharedNap) : end);
    }
  }
  for (Operation* operation : operations) operation->set_waiting(false);
}

}  // namespace

bool advance_all(std::span<Operation* const> operations) {
  bool moved = false;
  for (Operation* operation : operations) moved |= operation->advance();
  return moved;
}

void wait_for_news(System& system, std::span<Operation* const> operations, Wait& wait, Poller* all) {
  const Wait::Advice advice = wait.idle();
  if (advice == Wait::Advice::kAgain) return;
  const Time now = system.clock.now();
  bool ended = false;
  for (Operation* operation : operations) ended |= operation->examine(now);
  if (ended) return;
  if (advice == Wait::Advice::kSleep) sleep(system, operations, wait, now, all);
}

void drive(System& system, std::span<Operation* const> operations, Wait& wait) {
  const auto ended = [](const Operation* operation) { return operation->ended(); };
  while (true) {
    const bool moved = advance_all(operations);
    if (std::all_of(operations.begin(), operations.end(), ended)) return;
    if (moved) {
      wait.progressed();
    } else {
      wait_for_news(system, operations, wait);
    }
  }
}

Status run(Communicator& communicator, Operation& operation) {
  operation.issue(true);
  operation.advance();
  if (operation.ended()) return operation.status();
  Wait wait = communicator.make_wait();
  Operation* const operations[] = {&operation};
  drive(communicator.system(), operations, wait);
  return operation.status();
}

}  // namespace hocket
