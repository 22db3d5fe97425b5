// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/wait.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hocket {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// One look at pipes in memory costs about this much, and at sockets, which the kernel must be asked about, ten times
// as much and more: how long they have been looked at is read off the clock now and then.
constexpr Duration kLookCost{40};
constexpr uint32_t kLooksPerClock = 256;
constexpr Duration kShortestNap = microseconds(500);
constexpr Duration kLongestNap = milliseconds(10);

Duration chosen(bool crowded, Duration spin) {
  if (spin.count() >= 0) return spin;
  return crowded ? Duration(0) : Duration(milliseconds(1));
}

uint32_t looks(Duration spin) {
  return static_cast<uint32_t>(std::clamp<int64_t>(spin / kLookCost, 1, int64_t{1} << 30));
}

}  // namespace

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A crowded core belongs to whoever has work: looking twice before yielding costs 4 ranks on 2 cores half again as
// much.
Wait::Wait(System& system, bool crowded, Duration spin)
    : system_(system), spin_(chosen(crowded, spin)), spins_(looks(spin_)), yields_(crowded ? 2000 : 1000) {}

Wait::Advice Wait::idle() {
  ++idle_;
  if (idle_ <= spins_) {
    relax();
    if (idle_ % kLooksPerClock != 0) return Advice::kAgain;
    const Time now = system_.clock.now();
    if (idle_ == kLooksPerClock) begun_ = now;
    if (now - begun_ >= spin_) idle_ = spins_;
    return Advice::kLook;
  }
  if (idle_ <= spins_ + yields_) {
    naps_ = 0;
    system_.threads.yield();
    return Advice::kLook;  // whoever had the core may have kept it for its whole time slice
  }
  return Advice::kSleep;
}

Time Wait::nap_end(Time now) {
  const Duration nap = std::min(kLongestNap, kShortestNap * (int64_t{1} << std::min(naps_, 5u)));
  ++naps_;
  return now + nap;
}

}  // namespace hocket
