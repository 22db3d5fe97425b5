// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a communicator costs: how long its ranks take to create it, once their processes run, and how much memory its
// pipes take: idle, after short calls, after long ones.
//
//   hocket run -n 64 init_bench
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "hocket/hocket.h"

namespace {

constexpr int kRounds = 11;
constexpr size_t kLong = 16 << 20;

void must(hocketResult_t result) {
  if (result == hocketSuccess) return;
  fmt::print(stderr, "{}\n", hocketGetLastError(nullptr));
  std::exit(1);
}

// This process's share of the memory that it uses, in KiB.
int64_t memory() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  int64_t kib = 0;
  while (file >> word && word != "Pss:") continue;
  file >> kib;
  return kib;
}

struct Ranks {
  hocketComm_t comm = nullptr;
  int rank = 0;
  int ranks = 0;

  template <typename T>
  T largest(T mine, hocketDataType_t type) const {
    must(hocketAllReduce(&mine, &mine, 1, type, hocketMax, comm, nullptr));
    return mine;
  }
  hocketComm_t create() const {
    hocketUniqueId id{};
    hocketComm_t made = nullptr;
    if (rank == 0) must(hocketGetUniqueId(&id));
    must(hocketBcast(&id, sizeof id, hocketUint8, 0, comm, nullptr));
    must(hocketCommInitRank(&made, ranks, id, rank));
    return made;
  }
};

// Milliseconds until the last rank has it.
double time_of_creation(const Ranks& all) {
  std::vector<double> times;
  for (int i = 0; i < kRounds; ++i) {
    must(hocketBarrier(all.comm, nullptr));
    const auto begin = std::chrono::steady_clock::now();
    hocketComm_t made = all.create();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    times.push_back(all.largest(time.count(), hocketFloat64));
    must(hocketCommDestroy(made));
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

// KiB of the rank that takes most.
int64_t growth(const Ranks& all, int64_t before) {
  must(hocketBarrier(all.comm, nullptr));
  return all.largest(memory() - before, hocketInt64);
}

}  // namespace

int main() {
  Ranks all;
  must(hocketCommInitFromEnvironment(&all.comm, nullptr));
  must(hocketCommUserRank(all.comm, &all.rank));
  must(hocketCommCount(all.comm, &all.ranks));
  std::vector<float> values(kLong / sizeof(float), 1);
  must(hocketBarrier(all.comm, nullptr));
  const double time = time_of_creation(all);
  const int64_t before = memory();
  const hocketComm_t made = all.create();
  const int64_t idle = growth(all, before);
  must(hocketAllReduce(values.data(), values.data(), 2, hocketFloat, hocketSum, made, nullptr));
  const int64_t brief = growth(all, before);
  must(hocketAllReduce(values.data(), values.data(), values.size(), hocketFloat, hocketSum, made, nullptr));
  const int64_t extended = growth(all, before);
  if (all.rank == 0) {
    fmt::print(
        "{} ranks: created in {:.2f} ms; memory of a rank beyond what it had: {} KiB created, {} KiB after an "
        "all-reduce of 8 bytes, {} KiB after one of {} MiB\n",
        all.ranks, time, idle, brief, extended, kLong >> 20);
  }
  must(hocketCommDestroy(made));
  must(hocketCommDestroy(all.comm));
  return 0;
}
