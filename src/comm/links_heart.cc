// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Time during which this process did not run (stopped, starved, suspended) is not held against its peers: each link's
// silence is measured in time that was ours.
#include "comm/links_heart.h"

#include <algorithm>
#include <utility>

#include "comm/links.h"

namespace hocket {
namespace {

constexpr int kTicksPerBeat = 2;  // what follows a lost beat tells TCP of the loss
constexpr int kTicksPerTimeout = kTicksPerBeat * kBeatsPerTimeout;

}  // namespace

Heart::Heart(System& system, Reactor& reactor, Duration timeout)
    : system_(system), reactor_(reactor), timeout_(timeout), period_(timeout / kTicksPerTimeout) {}

void Heart::start() {
  due_ = system_.clock.now() + period_;
  reactor_.every(period_, [this] { tick(); });
}

// Between two ticks the loop has a period to itself. What is more was not ours, be it in here: who sends a beat wakes
// its receiver, which may get our core.
void Heart::tick() {
  const Time now = system_.clock.now();
  const Duration lateness = now - std::exchange(due_, now + period_);
  const bool beat = ++ticks_ % kTicksPerBeat == 0 || lateness > period_;
  const std::vector<Link*> links = links_;
  for (Link* link : links) {
    if (std::find(links_.begin(), links_.end(), link) == links_.end()) continue;  // went with an earlier one
    link->forgive(lateness, now);
    if (beat) link->beat();
    const Duration timeout = std::max(timeout_, link->patience());
    link->expect_news_since(now - timeout, now - timeout / 2);
  }
}

}  // namespace hocket
