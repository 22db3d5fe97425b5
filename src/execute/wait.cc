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
// Two ranks that the system has put on one core keep it from each other for as long as both spin. So who spins for long
// gives way now and then: that takes half a microsecond where nobody else runs, three where a rank gives way in turn.
constexpr Duration kFirstWay = microseconds(100);
constexpr Duration kOthersRan = microseconds(1);
constexpr int kInVain = 3;
// Who keeps the core for so long gives no way in turn: it is another program, which takes the time slice that it gets.
constexpr Duration kSlice = milliseconds(1);
constexpr Duration kKept = milliseconds(100);
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
Wait::Wait(System& system, bool crowded, Duration spin, CoreSharing* sharing)
    : system_(system),
      sharing_(crowded || spin.count() >= 0 ? nullptr : sharing),
      spin_(chosen(crowded, spin)),
      spins_(looks(spin_)),
      yields_(crowded ? 2000 : 1000) {}

Wait::Advice Wait::idle() {
  ++idle_;
  if (idle_ <= spins_) return spin();
  if (idle_ <= spins_ + yields_) {
    naps_ = 0;
    system_.threads.yield();
    return Advice::kLook;  // whoever had the core may have kept it for its whole time slice
  }
  return Advice::kSleep;
}

Wait::Advice Wait::spin() {
  if (sharing_ != nullptr && sharing_->is_shared.load(std::memory_order_relaxed)) {
    give_way();
    return Advice::kLook;
  }
  relax();
  if (idle_ % kLooksPerClock != 0) return Advice::kAgain;
  const Time now = system_.clock.now();
  if (idle_ == kLooksPerClock) {
    begun_ = now;
    way_ = kFirstWay;
  }
  if (now - begun_ >= spin_) idle_ = spins_;
  if (sharing_ != nullptr && now - begun_ >= way_ && now >= sharing_->kept_until.load(std::memory_order_relaxed)) {
    way_ *= 2;
    give_way();
  }
  return Advice::kLook;
}

// If others run meanwhile and then something has come, the rank that we wait for is one of them: the core is shared
// until nobody else runs there, they run in vain, or one of them keeps it.
void Wait::give_way() {
  if (in_vain_ == kInVain) {
    sharing_->is_shared.store(false, std::memory_order_relaxed);
    way_ = Duration::max();
    return;
  }
  const Time before = system_.clock.now();
  system_.threads.yield();
  const Time after = system_.clock.now();
  const bool is_kept = after - before >= kSlice;
  const bool others_ran = after - before > kOthersRan;
  if (others_ran) ++in_vain_;
  if (is_kept) sharing_->kept_until.store(after + kKept, std::memory_order_relaxed);
  sharing_->is_shared.store(others_ran && !is_kept, std::memory_order_relaxed);
}

Time Wait::nap_end(Time now) {
  const Duration nap = std::min(kLongestNap, kShortestNap * (int64_t{1} << std::min(naps_, 5u)));
  ++naps_;
  return now + nap;
}

}  // namespace hocket
