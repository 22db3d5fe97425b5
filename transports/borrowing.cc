// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/borrowing.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "transports/processor.h"

namespace hocket {
namespace {

using Steady = std::chrono::steady_clock;

constexpr size_t kShort = size_t{32} << 10;
// Where a read costs more than what a message of kShort saves by it, or ranks take turns on a core.
constexpr size_t kLong = (size_t{64} << 10) + 1;
constexpr std::chrono::nanoseconds kSaved(1'200);
constexpr int kTries = 16;

template <typename Function>
Steady::duration least_of(Function function) {
  Steady::duration least = Steady::duration::max();
  for (int i = 0; i < kTries; ++i) {
    const Steady::time_point begin = Steady::now();
    function();
    least = std::min(least, Steady::now() - begin);
  }
  return least;
}

}  // namespace

std::chrono::nanoseconds cost_of_a_read(SharedMemory& memory) {
  const std::vector<std::byte> from(kShort);
  std::vector<std::byte> to(kShort);
  bool can_read = true;
  const auto read = [&] { can_read &= memory.read(memory.process(), reinterpret_cast<uintptr_t>(from.data()), to); };
  const auto copy = [&] {
    const std::byte* volatile source = from.data();  // it is copied each time
    std::memcpy(to.data(), source, kShort);
  };
  const Steady::duration cost = least_of(read) - least_of(copy);
  return can_read ? cost : std::chrono::nanoseconds::max();
}

size_t borrows_from(std::chrono::nanoseconds cost_of_a_read, bool shares_cores) {
  if (is_amd()) return SIZE_MAX;  // beside string moves
  return shares_cores || cost_of_a_read > kSaved ? kLong : kShort;
}

// Two threads may measure at once, which does no harm: a lock would stay held in a child that is forked meanwhile.
size_t borrows_from(SharedMemory& memory, bool shares_cores) {
  static std::atomic<int64_t> known = INT64_MIN;
  if (is_amd() || shares_cores) return borrows_from(std::chrono::nanoseconds::max(), shares_cores);
  if (known == INT64_MIN) known = cost_of_a_read(memory).count();
  return borrows_from(std::chrono::nanoseconds(known), shares_cores);
}

}  // namespace hocket
