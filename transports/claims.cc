// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/claims.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace hocket {
namespace {

constexpr size_t kLine = 64;

// For all lines of a look. Past the caches a line takes 4 to 6 ns until it is read, and more where both ends write at
// once. Claimed it takes 1 to 3 ns on cores of one complex of an AMD EPYC 9004, 4 to 10 on those of two, and 15 to 37
// on those of two sockets (docs/decisions/0060).
constexpr Duration kNear = std::chrono::nanoseconds(Claims::kProbedBytes / kLine * 7 / 2);
constexpr Duration kMiddle = std::chrono::nanoseconds(Claims::kProbedBytes / kLine * 12);

}  // namespace

void Claims::look(std::byte* memory, size_t bytes) {
  unseen_ += bytes;
  if (unseen_ < kInterval) return;
  unseen_ = 0;
  const Time begin = clock_.now();
  for (size_t line = 0; line < kProbedBytes; line += kLine) {
    *reinterpret_cast<volatile uint64_t*>(memory + line) = 0;  // the message comes right behind
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the stores have their lines
  taken_[looks_++ % taken_.size()] = clock_.now() - begin;
  const Duration least = *std::min_element(taken_.begin(), taken_.end());
  distance_ = least <= kNear ? Distance::kNear : least <= kMiddle ? Distance::kMiddle : Distance::kFar;
}

}  // namespace hocket
