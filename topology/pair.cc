// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/pair.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace hocket::topology {
namespace {

using Clock = std::chrono::steady_clock;

// A batch in which a thread lost its core is long; the median batch is one in which none did.
constexpr int kBatches = 15;
constexpr uint32_t kRoundsPerBatch = 400;
constexpr size_t kBlock = size_t{256} << 10;  // fits into the cache that a core has for itself
constexpr int kBlocks = 40;

// Both threads write the one line in turn: even values are the first one's to answer, odd ones the second's.
struct alignas(128) Line {
  std::atomic<uint32_t> value{0};
};

// Counts threads that are in place; a failure stays visible to both.
class Gate {
 public:
  bool pass(bool pinned) {
    if (!pinned) failed_.store(true);
    arrived_.fetch_add(1);
    while (arrived_.load() < 2) std::this_thread::yield();
    return !failed_.load();
  }

 private:
  std::atomic<int> arrived_{0};
  std::atomic<bool> failed_{false};
};

void wait_for(const Line& line, uint32_t value) {
  while (line.value.load(std::memory_order_acquire) != value) {
  }
}

double nanoseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

constexpr uint32_t kLastAnswer = 2 * kBatches * kRoundsPerBatch;

void answer(Line& line, std::vector<char>& block, CorePair& pair) {
  for (uint32_t value = 1; value < kLastAnswer; value += 2) {
    wait_for(line, value);
    line.value.store(value + 1, std::memory_order_release);
  }
  std::vector<char> copy(block.size());
  for (uint32_t number = 0; number < kBlocks; ++number) {
    wait_for(line, kLastAnswer + 2 * number + 1);
    const auto begin = Clock::now();
    std::memcpy(copy.data(), block.data(), block.size());
    // Somebody must want the copy, or the compiler makes none.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const double rate = static_cast<double>(copy.size()) / nanoseconds_since(begin);
    pair.gb_per_s = std::max(pair.gb_per_s, copy[number] == static_cast<char>(number) ? rate : 0);
    line.value.store(kLastAnswer + 2 * number + 2, std::memory_order_release);
  }
}

void ask(Line& line, std::vector<char>& block, CorePair& pair) {
  std::array<double, kBatches> batches{};
  uint32_t value = 0;
  for (double& batch : batches) {
    const auto begin = Clock::now();
    for (uint32_t round = 0; round < kRoundsPerBatch; ++round) {
      line.value.store(++value, std::memory_order_release);
      wait_for(line, ++value);
    }
    batch = nanoseconds_since(begin) / kRoundsPerBatch;
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  pair.one_way_ns = batches[kBatches / 2] / 2;
  for (int number = 0; number < kBlocks; ++number) {
    std::memset(block.data(), number, block.size());
    line.value.store(++value, std::memory_order_release);
    wait_for(line, ++value);
  }
}

}  // namespace

bool pin_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  CPU_SET(static_cast<size_t>(cpu), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

std::optional<CorePair> measure_pair(int first, int second) {
  Line line;
  Gate gate;
  std::vector<char> block(kBlock);
  CorePair pair{.first = first, .second = second};
  bool in_place = false;
  // Threads of our own, so that the caller's affinity stays as it is.
  std::thread answering([&] {
    if (gate.pass(pin_thread(second))) answer(line, block, pair);
  });
  std::thread asking([&] {
    in_place = gate.pass(pin_thread(first));
    if (in_place) ask(line, block, pair);
  });
  asking.join();
  answering.join();
  if (!in_place) return std::nullopt;
  return pair;
}

}  // namespace hocket::topology
