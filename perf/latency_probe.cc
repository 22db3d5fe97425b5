// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors

#include "perf/latency_probe.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "topology/machine.h"

namespace hocket::perf {
namespace {

// A batch in which a thread lost its core is long; the median batch is one in which none did.
constexpr int kBatches = 15;
constexpr uint32_t kRoundsPerBatch = 400;

bool pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
  CPU_SET(static_cast<size_t>(cpu), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

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

void answer(Line& line, Gate& gate, int cpu) {
  if (!gate.pass(pin(cpu))) return;
  for (uint32_t value = 1; value < 2 * kBatches * kRoundsPerBatch; value += 2) {
    wait_for(line, value);
    line.value.store(value + 1, std::memory_order_release);
  }
}

void ask(Line& line, Gate& gate, int cpu, std::optional<double>& round_ns) {
  using Clock = std::chrono::steady_clock;
  if (!gate.pass(pin(cpu))) return;
  std::array<double, kBatches> batches{};
  uint32_t value = 0;
  for (double& batch : batches) {
    const auto start = Clock::now();
    for (uint32_t round = 0; round < kRoundsPerBatch; ++round) {
      line.value.store(++value, std::memory_order_release);
      wait_for(line, ++value);
    }
    batch = std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kRoundsPerBatch;
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  round_ns = batches[kBatches / 2];
}

}  // namespace

std::optional<Latency> probe_latency(int first, int second) {
  Line line;
  Gate gate;
  std::optional<double> round_ns;
  // Threads of our own, so that the caller's affinity stays as it is.
  std::thread answering([&] { answer(line, gate, second); });
  std::thread asking([&] { ask(line, gate, first, round_ns); });
  asking.join();
  answering.join();
  if (!round_ns) return std::nullopt;
  return Latency{first, second, *round_ns / 2};
}

std::optional<Latency> probe_latency() {
  const Machine& here = machine();
  if (here.cores.size() < 2) return std::nullopt;
  return probe_latency(here.cores[0].front(), here.cores[1].front());
}

std::string to_text(const std::optional<Latency>& latency) {
  if (!latency) return "one core: no latency between cores";
  return fmt::format("cpu {} to {}: {:.0f} ns ({})", latency->first, latency->second, latency->one_way_ns,
                     latency->far() ? "far" : "near");
}

}  // namespace hocket::perf
