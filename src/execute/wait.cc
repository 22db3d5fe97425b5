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

// One look at the pipes costs about this much.
constexpr Duration kLookCost{40};
constexpr uint32_t kLooksPerClock = 256;
constexpr Duration kShortestNap = microseconds(500);
constexpr Duration kLongestNap = milliseconds(10);

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
    : system_(system),
      spins_(looks(spin.count() >= 0 ? spin : (crowded ? Duration(0) : Duration(milliseconds(1))))),
      yields_(crowded ? 2000 : 1000) {}

Wait::Advice Wait::idle() {
  ++idle_;
  if (idle_ <= spins_) {
    relax();
    return idle_ % kLooksPerClock == 0 ? Advice::kLook : Advice::kAgain;
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
