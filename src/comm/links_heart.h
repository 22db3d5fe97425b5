// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The heart of a process: sends heartbeats on all its links and notices links that fell silent. Service thread only.
#pragma once

#include <vector>

#include "base/reactor.h"
#include "base/system.h"

namespace hocket {

class Link;

inline constexpr int kBeatsPerTimeout = 8;

class Heart {
 public:
  // A link that was silent for `timeout` ends; so many heartbeats go out meanwhile.
  Heart(System& system, Reactor& reactor, Duration timeout);

  void start();
  void add(Link* link) { links_.push_back(link); }
  void remove(Link* link) { std::erase(links_, link); }
  Duration timeout() const { return timeout_; }

 private:
  void tick();

  System& system_;
  Reactor& reactor_;
  const Duration timeout_;
  const Duration period_;
  Time due_;
  int ticks_ = 0;
  std::vector<Link*> links_;  // in the order in which they came, so that a simulation can be replayed
};

}  // namespace hocket
