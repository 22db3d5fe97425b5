// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One-sided calls between two ranks: rank 0 works on rank 1's memory, which it maps, or which rank 1's service thread
// reads and writes for it. Medians.
//
//   hocket run -n 2 one_sided_bench
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "hocket/hocket.h"

namespace {

constexpr size_t kLong = 4 << 20;
constexpr int kRounds = 200;

void must(hocketResult_t result) {
  if (result == hocketSuccess) return;
  fmt::print(stderr, "{}\n", hocketGetLastError(nullptr));
  std::exit(1);
}

// Microseconds of one call.
template <typename Call>
double median_us(int rounds, const Call& call) {
  std::vector<double> times;
  for (int i = -rounds / 10 - 1; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    if (i >= 0) times.push_back(time.count());
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<size_t>(rounds / 2)];
}

struct Bench {
  hocketComm_t comm;
  int rank;
  hocketWindow_t window;
  std::vector<char> local = std::vector<char>(kLong);

  void put(size_t bytes) { must(hocketPut(local.data(), bytes, hocketUint8, 1, window, 0, comm, nullptr)); }
  void get(size_t bytes) { must(hocketGet(local.data(), bytes, hocketUint8, 1, window, 0, comm, nullptr)); }
  void add() {
    const int64_t one = 1;
    int64_t before = 0;
    must(hocketFetchOp(&one, &before, hocketInt64, hocketSum, 1, window, 0, comm, nullptr));
  }
  void put_signal() {
    must(hocketPutSignal(local.data(), 8, hocketUint8, 1 - rank, window, 64, 0, 0, 0, comm, nullptr));
  }
  void wait() {
    const hocketWaitSignalDesc_t one{1, 1 - rank, 0, 0};
    must(hocketWaitSignal(1, &one, comm, nullptr));
  }
  double ping_pong() {
    return median_us(10 * kRounds, [&] {
      if (rank == 0) put_signal();
      wait();
      if (rank == 1) put_signal();
    });
  }

  void run(const char* memory) {
    const double there_and_back = ping_pong();
    if (rank == 0) {
      const auto rate = [&](double us) { return static_cast<double>(kLong) / us / 1000; };
      fmt::print(
          "{:<28}{:>10.2f}{:>10.2f}{:>10.2f}{:>14.2f}{:>12.2f}{:>12.2f}\n", memory, median_us(kRounds, [&] { put(8); }),
          median_us(kRounds, [&] { get(8); }), median_us(kRounds, [&] { add(); }), there_and_back / 2,
          rate(median_us(kRounds / 10, [&] { put(kLong); })), rate(median_us(kRounds / 10, [&] { get(kLong); })));
    }
    must(hocketBarrier(comm, nullptr));
  }
};

}  // namespace

int main() {
  hocketComm_t comm = nullptr;
  int rank = 0;
  int ranks = 0;
  must(hocketCommInitFromEnvironment(&comm, nullptr));
  must(hocketCommUserRank(comm, &rank));
  must(hocketCommCount(comm, &ranks));
  if (ranks != 2) {
    fmt::print(stderr, "one_sided_bench: {} ranks: it takes 2\n", ranks);
    return 2;
  }
  if (rank == 0) {
    fmt::print("{:<28}{:>10}{:>10}{:>10}{:>14}{:>12}{:>12}\n{:<28}{:>10}{:>10}{:>10}{:>14}{:>12}{:>12}\n", "memory",
               "put", "get", "fetch_op", "put_signal", "put", "get", "", "8 B, us", "8 B, us", "8 B, us", "one way, us",
               "4 MiB, GB/s", "4 MiB, GB/s");
  }
  void* shared = nullptr;
  std::vector<char> plain(kLong);
  must(hocketMemAlloc(&shared, kLong));
  for (const bool maps : {true, false}) {
    Bench bench{comm, rank, nullptr};
    must(hocketCommWindowRegister(comm, maps ? shared : plain.data(), kLong, &bench.window, HOCKET_WIN_DEFAULT));
    bench.run(maps ? "of hocketMemAlloc" : "of the program's own");
    must(hocketCommWindowDeregister(comm, bench.window));
  }
  must(hocketCommDestroy(comm));
  must(hocketMemFree(shared));
  return 0;
}
