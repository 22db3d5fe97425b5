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
void nap_on_all(Poller& all, std::span<Work* const> works, Time until) {
  std::vector<Handle> watched;
  for (Work* work : works) {
    if (work->ended()) continue;
    const Handle handle = work->communicator().mesh().poller().handle();
    if (std::find(watched.begin(), watched.end(), handle) == watched.end() && all.add(handle).ok())
      watched.push_back(handle);
  }
  all.wait(until);
  for (const Handle handle : watched) all.remove(handle);
}

void sleep(System& system, std::span<Work* const> works, Wait& wait, Time now, Poller* all) {
  for (Work* work : works) work->set_waiting(true);
  // What came before the announcement would not wake us.
  if (!advance_all(works)) {
    Communicator& first = works.front()->communicator();
    const bool shared =
        std::any_of(works.begin(), works.end(), [&](Work* work) { return &work->communicator() != &first; });
    Duration longest = Duration::max();
    for (Work* work : works) longest = std::min(longest, work->next_nap());
    const Time end = std::min(wait.nap_end(now), longest == Duration::max() ? Time::max() : now + longest);
    if (all != nullptr) {
      nap_on_all(*all, works, end);
    } else {
      nap(system, first, shared ? std::min(end, now + kSharedNap) : end);
    }
  }
  for (Work* work : works) work->set_waiting(false);
}

bool all_ended(std::span<Work* const> works) {
  return std::all_of(works.begin(), works.end(), [](const Work* work) { return work->ended(); });
}

// Exhausted memory must leave nothing under way.
class Ending {
 public:
  Ending(System& system, std::span<Work* const> works) : system_(system), works_(works) {}
  ~Ending() {
    while (!all_ended(works_)) {
      abandon(system_, works_);
      system_.threads.sleep_until(system_.clock.now() + kSharedNap);
    }
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  System& system_;
  const std::span<Work* const> works_;
};

}  // namespace

bool advance_all(std::span<Work* const> works) {
  bool moved = false;
  for (Work* work : works) moved |= work->advance();
  return moved;
}

void wait_for_news(System& system, std::span<Work* const> works, Wait& wait, Poller* all) {
  const Wait::Advice advice = wait.idle();
  if (advice == Wait::Advice::kAgain) return;
  const Time now = system.clock.now();
  bool ended = false;
  for (Work* work : works) ended |= work->examine(now);
  if (ended) return;
  if (advice == Wait::Advice::kSleep) sleep(system, works, wait, now, all);
}

// Of a failed communicator examine() ends what runs, and advance() what has its turn.
void abandon(System& system, std::span<Work* const> works) noexcept {
  for (Work* work : works) {
    if (work->ended()) continue;
    work->communicator().mesh().fail_without_memory();
    if (!work->examine(system.clock.now())) work->advance();
  }
}

void drive(System& system, std::span<Work* const> works, Wait& wait) {
  const Ending ending(system, works);
  while (true) {
    const bool moved = advance_all(works);
    if (all_ended(works)) return;
    if (moved) {
      wait.progressed();
    } else {
      wait_for_news(system, works, wait);
    }
  }
}

Status run(Communicator& communicator, Work& work) {
  Work* const works[] = {&work};
  work.issue(true);
  const Ending ending(communicator.system(), works);
  work.advance();
  if (work.ended()) return work.status();
  Wait wait = communicator.fresh_wait();
  drive(communicator.system(), works, wait);
  return work.status();
}

}  // namespace hocket
