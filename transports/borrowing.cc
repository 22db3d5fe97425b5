// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/borrowing.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "transports/processor.h"

namespace hocket {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kShort = size_t{32} << 10;
// Where a read costs more than what a message of kShort saves by it, or ranks take turns on a core.
constexpr size_t kLong = (size_t{64} << 10) + 1;
constexpr std::chrono::nanoseconds kSaved(1'200);
constexpr int kTries = 16;

template <typename Function>
Clock::duration least_of(Function function) {
  Clock::duration least = Clock::duration::max();
  for (int i = 0; i < kTries; ++i) {
    const Clock::time_point begin = Clock::now();
    function();
    least = std::min(least, Clock::now() - begin);
  }
  return least;
}

}  // namespace

std::chrono::nanoseconds cost_of_a_read(SharedMemory& memory) {
  const std::vector<std::byte> from(kShort);
  std::vector<std::byte> to(kShort);
  const auto read = [&] { (void)memory.read(memory.process(), reinterpret_cast<uintptr_t>(from.data()), to); };
  const auto copy = [&] {
    const std::byte* volatile source = from.data();  // it is copied each time
    std::memcpy(to.data(), source, kShort);
  };
  return least_of(read) - least_of(copy);
}

size_t borrows_from(std::chrono::nanoseconds cost_of_a_read, bool shares_cores) {
  if (is_amd()) return SIZE_MAX;  // beside string moves
  return shares_cores || cost_of_a_read > kSaved ? kLong : kShort;
}

}  // namespace hocket
