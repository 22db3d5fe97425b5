// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a driving thread does while nothing moves: spin, then yield, then sleep in short naps. How long each lasts
// depends on whether the ranks of this host share cores: all of the time, or for now, because the system has put us
// where the rank runs that we wait for.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/system.h"

namespace hocket {

// One turn of a loop that looks for news.
void relax();

// What the waits of a communicator tell each other of the core that they are on.
struct CoreSharing {
  std::atomic<bool> is_shared = false;  // for now, with the rank that is waited for
  std::atomic<Time> kept_until{};       // nobody gives way before: others have held the core for a time slice
};

class Wait {
 public:
  enum class Advice : uint8_t {
    kAgain,  // look again at once
    kLook,   // look again, and at the clock, failures and deadlines too
    kSleep,  // as kLook; then sleep until nap_end(), unless something has come
  };

  // `crowded`: more driving threads on this host than cores. `spin`: how long to spin before yielding; negative:
  // chosen. `sharing` may be null: then it never gives way while it spins.
  Wait(System& system, bool crowded, Duration spin, CoreSharing* sharing = nullptr);

  void progressed() {
    idle_ = 0;
    in_vain_ = 0;
  }
  // Called each time nothing moved. Spins or yields a little.
  Advice idle();
  // When the nap that kSleep advises ends. Naps grow, because a missed wake-up costs at most one.
  Time nap_end(Time now);

 private:
  Advice spin();
  void give_way();

  System& system_;
  CoreSharing* sharing_;
  Duration spin_;
  uint32_t spins_;  // looks at most
  uint32_t yields_;
  uint32_t idle_ = 0;
  int in_vain_ = 0;  // how often others ran when we gave way, and nothing has come since
  Time begun_{};     // to spin, but for the first looks
  Duration way_{};   // since then until we give way for once
  uint32_t naps_ = 0;
};

}  // namespace hocket
