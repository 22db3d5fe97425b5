// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Buffers of more than 2^31 bytes and what stands in them: a pattern that differs from rank to rank and repeats after a
// prime.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace hocket::test {

// Memory that goes back to the system at once.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~Pages() { munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  int8_t* data() const { return static_cast<int8_t*>(memory_); }

 private:
  size_t bytes_;
  void* memory_;
};

inline constexpr size_t kHugePeriod = 251;

// Element `position` of what `rank` brings; below 101.
inline int8_t huge_pattern(size_t position, int rank) {
  return static_cast<int8_t>(position % kHugePeriod % 100 + static_cast<size_t>(rank));
}

inline void fill_huge(int8_t* memory, size_t count, int rank) {
  for (size_t i = 0; i < std::min(count, kHugePeriod); ++i) memory[i] = huge_pattern(i, rank);
  for (size_t done = kHugePeriod; done < count; done *= 2)
    std::memcpy(memory + done, memory, std::min(done, count - done));
}

// All elements are what `rank` brings from position `phase` on.
inline void expect_huge(const int8_t* memory, size_t count, int rank, size_t phase = 0) {
  std::array<int8_t, kHugePeriod> period;
  for (size_t i = 0; i < kHugePeriod; ++i) period[i] = huge_pattern(phase + i, rank);
  for (size_t at = 0; at < count; at += kHugePeriod) {
    if (std::memcmp(memory + at, period.data(), std::min(kHugePeriod, count - at)) == 0) continue;
    ADD_FAILURE() << "wrong within elements " << at << " to " << at + kHugePeriod - 1;
    return;
  }
}

}  // namespace hocket::test
