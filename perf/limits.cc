// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the machine allows two processes: times what by_hand.h has, and checks its results. Hocket's all-reduce on
// windows is measured against `direct` and `directown`, on plain memory against `oneshot` and `staged`, over TCP
// against `socket` and `pieces`; its broadcast against `sent`, its all-gather against `swapped`.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "by_hand.h"

namespace hocket::perf {
namespace {

enum class Result { kNone, kSum, kRootsBuffer, kHalfOfEach };

struct Limit {
  const char* name;
  void (Rank::*run)(size_t count);
  float* Buffers::* local;  // where it works: private memory, or own[rank]
  Result result;
  size_t bytes_at_most;
};

constexpr Limit kLimits[] = {
    {"flag", &Rank::flag, &Buffers::local, Result::kNone, 64},
    {"oneshot", &Rank::oneshot, &Buffers::local, Result::kSum, 1 << 20},
    {"staged", &Rank::staged, &Buffers::local, Result::kSum, SIZE_MAX},
    {"socket", &Rank::socket, &Buffers::local, Result::kSum, SIZE_MAX},
    {"pieces", &Rank::pieces, &Buffers::local, Result::kSum, SIZE_MAX},
    {"direct", &Rank::direct, nullptr, Result::kSum, SIZE_MAX},
    {"directown", &Rank::directown, nullptr, Result::kSum, SIZE_MAX},
    {"memcpy", &Rank::copy, &Buffers::local, Result::kNone, SIZE_MAX},
    {"sent", &Rank::sent, &Buffers::local, Result::kRootsBuffer, SIZE_MAX},
    {"swapped", &Rank::swapped, &Buffers::local, Result::kHalfOfEach, SIZE_MAX},
};

// Small integers: sums are exact.
float value(int rank, size_t index) { return static_cast<float>((index * 7 + static_cast<size_t>(rank) * 3) % 101); }

float expected(Result result, size_t index, size_t count) {
  if (result == Result::kSum) return value(0, index) + value(1, index);
  return value(result == Result::kRootsBuffer || index < count / 2 ? 0 : 1, index);
}

bool is_right(Rank& rank, const Buffers& buffers, const Limit& limit, size_t count) {
  if (limit.result == Result::kNone) return true;
  float* data = limit.local != nullptr ? buffers.*limit.local : buffers.own[rank.rank()];
  for (size_t i = 0; i < count; ++i) data[i] = value(rank.rank(), i);
  (rank.*limit.run)(count);
  for (size_t i = 0; i < count; ++i) {
    if (data[i] != expected(limit.result, i, count)) return false;
  }
  std::memset(data, 0, count * sizeof(float));  // repeated sums stay what they are
  return true;
}

double seconds_per_call(Rank& rank, const Limit& limit, size_t count, int calls) {
  rank.meet();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) (rank.*limit.run)(count);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / calls;
}

struct Options {
  size_t first = 4;
  size_t last = 128 << 20;
  int factor = 2;
  int repetitions = 9;
};

int calls_for(size_t bytes) {
  constexpr size_t kBytesPerRepetition = size_t{64} << 20;
  return static_cast<int>(std::clamp<size_t>(kBytesPerRepetition / std::max<size_t>(bytes, 1), 2, 20000));
}

// The slower rank's time of each repetition: their median, and the best.
void print_time(const Shared& shared, int repetitions) {
  std::vector<double> slower;
  for (int i = 0; i < repetitions; ++i) slower.push_back(std::max(shared.seconds[0][i], shared.seconds[1][i]) * 1e6);
  std::sort(slower.begin(), slower.end());
  std::printf("%12.2f (%8.2f)", slower[slower.size() / 2], slower.front());
}

bool measure(Rank& rank, const Buffers& buffers, const Options& options) {
  for (size_t bytes = options.first; bytes <= options.last; bytes *= static_cast<size_t>(options.factor)) {
    if (rank.rank() == 0) std::printf("%10zu", bytes);
    for (const Limit& limit : kLimits) {
      const size_t count = bytes / sizeof(float);
      if (bytes > limit.bytes_at_most) {
        if (rank.rank() == 0) std::printf("%23s", "-");
        continue;
      }
      if (!is_right(rank, buffers, limit, count)) {
        rank.shared().failed = true;
        std::fprintf(stderr, "limits: %s of %zu bytes gives wrong results on rank %d\n", limit.name, bytes,
                     rank.rank());
        return false;
      }
      seconds_per_call(rank, limit, count, 2);
      for (int i = 0; i < options.repetitions; ++i)
        rank.shared().seconds[rank.rank()][i] = seconds_per_call(rank, limit, count, calls_for(bytes));
      rank.meet();
      if (rank.rank() == 0) print_time(rank.shared(), options.repetitions);
      rank.meet();
    }
    if (rank.rank() == 0) {
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  return true;
}

std::byte* map(size_t bytes, int sharing) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "limits: no memory for %zu bytes\n", bytes);
    std::exit(2);
  }
  std::memset(memory, 0, bytes);
  return static_cast<std::byte*>(memory);
}

Buffers make_buffers(size_t bytes, std::byte* shared) {
  const size_t slot = std::min<size_t>(bytes, 1 << 20);
  const auto take = [&shared](size_t size) {
    auto* floats = reinterpret_cast<float*>(shared);
    shared += size;
    return floats;
  };
  Buffers buffers{};
  for (float*& own : buffers.own) own = take(bytes);
  for (float*& each : buffers.slots) each = take(slot);
  buffers.local = reinterpret_cast<float*>(map(bytes, MAP_PRIVATE));
  buffers.other = reinterpret_cast<float*>(map(bytes, MAP_PRIVATE));
  return buffers;
}

int run(const Options& options) {
  const size_t bytes = (options.last + kPage - 1) / kPage * kPage;
  std::byte* memory = map(sizeof(Shared) + kPage + 2 * bytes + 4 * std::min<size_t>(bytes, 1 << 20), MAP_SHARED);
  auto* shared = new (memory) Shared;
  std::byte* buffers = memory + (sizeof(Shared) + kPage - 1) / kPage * kPage;
  std::printf("# two processes, float32, in place; microseconds a call: median (best) of %d\n%10s", options.repetitions,
              "# bytes");
  for (const Limit& limit : kLimits) std::printf("%23s", limit.name);
  std::printf("\n");
  std::fflush(stdout);
  Loopback loopback;
  const pid_t child = fork();
  if (child < 0) return 2;
  loopback.be(child == 0 ? 1 : 0);
  const Buffers mine = make_buffers(bytes, buffers);
  Rank rank(child == 0 ? 1 : 0, *shared, mine, loopback);
  const bool ok = measure(rank, mine, options);
  if (child == 0) std::_Exit(ok ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return ok && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hocket::perf

int main(int argc, char** argv) {
  using hocket::perf::kMaxRepetitions;
  CLI::App app("What the machine allows two processes that share memory, written by hand", "limits");
  hocket::perf::Options options;
  const auto sizes = CLI::AsSizeValue(false);
  app.add_option("-b,--minbytes", options.first, "Smallest size")->transform(sizes);
  app.add_option("-e,--maxbytes", options.last, "Largest size")->transform(sizes);
  app.add_option("-f,--stepfactor", options.factor, "Factor between sizes")->check(CLI::Range(2, 1 << 20));
  app.add_option("-r,--repetitions", options.repetitions, "Of which the median is shown")
      ->check(CLI::Range(1, static_cast<int>(kMaxRepetitions)));
  CLI11_PARSE(app, argc, argv);
  return hocket::perf::run(options);
}
