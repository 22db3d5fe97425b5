// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Whether communicators of one process hold each other up. Each thread, on a core of its own, drives both ranks of its
// own communicator: what does one alone make, and what do all at once? Or one thread drives many, one after the other:
// does a call cost more than with one? All sides take turns; medians of the rounds.
//
//   threads_bench [--threads N | --communicators N] [sizes]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "hocket/hocket.h"
#include "processes.h"
#include "sizes.h"
#include "statistics.h"

namespace {

using hocket::perf::Seat;
using hocket::perf::size_text;
using hocket::perf::statistics_of;

struct Options {
  size_t threads = 0;
  size_t communicators = 0;  // that one thread drives; 0: threads are compared
  size_t rounds = 11;
  int64_t turn_ms = 50;
  std::vector<std::string> sizes{"8", "4K", "64K", "1M"};
};

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "threads_bench: {}\n", why);
  std::exit(1);
}

void must(hocketResult_t result) {
  if (result != hocketSuccess) give_up(hocketGetLastError(nullptr));
}

using Pair = std::array<hocketComm_t, 2>;

// What a thread works with: communicators of two ranks each, both driven by it, and the ranks' buffers.
class Driver {
 public:
  Driver(size_t communicators, size_t bytes) : pairs_(communicators), count_(bytes / sizeof(float)) {
    for (Pair& pair : pairs_) must(hocketCommInitAll(pair.data(), 2, nullptr));
    for (size_t rank = 0; rank < 2; ++rank) {
      sums_[rank].resize(count_);
      for (size_t i = 0; i < count_; ++i) values_[rank].push_back(value(rank, i));
    }
  }
  ~Driver() {
    for (const Pair& pair : pairs_) {
      for (hocketComm_t comm : pair) must(hocketCommDestroy(comm));
    }
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  void forget() {
    for (auto& sums : sums_) sums.assign(count_, 0);
  }
  // All-reduces for so long, by the first so many communicators in turn; calls a second.
  double rate(size_t communicators, int64_t turn_ms) {
    const std::chrono::milliseconds turn(turn_ms);
    const auto begin = std::chrono::steady_clock::now();
    std::chrono::duration<double> taken{};
    size_t calls = 0;
    for (; taken < turn; taken = std::chrono::steady_clock::now() - begin, calls += communicators) {
      for (size_t i = 0; i < communicators; ++i) all_reduce(pairs_[i]);
    }
    return static_cast<double>(calls) / taken.count();
  }
  // Every element of the last call's results.
  void check() const {
    for (const auto& sums : sums_) {
      for (size_t i = 0; i < count_; ++i) {
        if (sums[i] != value(0, i) + value(1, i)) give_up(fmt::format("element {} is {}", i, sums[i]));
      }
    }
  }

 private:
  static float value(size_t rank, size_t i) { return static_cast<float>(i % 13 + 100 * rank); }

  void all_reduce(const Pair& pair) {
    must(hocketGroupStart());
    for (size_t rank = 0; rank < 2; ++rank) {
      must(hocketAllReduce(values_[rank].data(), sums_[rank].data(), count_, hocketFloat, hocketSum, pair[rank],
                           nullptr));
    }
    must(hocketGroupEnd());
  }

  std::vector<Pair> pairs_;
  const size_t count_;
  std::array<std::vector<float>, 2> values_, sums_;
};

double median(const std::vector<double>& of) { return statistics_of(of).p50; }

// Calls a second, a figure for each round.
struct Rates {
  explicit Rates(size_t rounds) : before(rounds), after(rounds) {}
  std::vector<double> before, after;  // alone and together, or by one communicator and by many
};

// What each thread does. The round before the first is not kept.
void take_turns(const Options& options, size_t bytes, size_t number, std::barrier<>& meet, Rates& rates) {
  Seat(static_cast<int>(number), static_cast<int>(options.threads), -1, -1).take_core();
  Driver driver(1, bytes);
  const auto turn = [&](bool is_mine) {
    driver.forget();
    meet.arrive_and_wait();
    const double rate = is_mine ? driver.rate(1, options.turn_ms) : 0;
    meet.arrive_and_wait();
    if (is_mine) driver.check();
    return rate;
  };
  for (size_t round = 0; round <= options.rounds; ++round) {
    const size_t keep = round == 0 ? 0 : round - 1;
    for (size_t whose = 0; whose < options.threads; ++whose) {
      const double rate = turn(whose == number);
      if (whose == number) rates.before[keep] = rate;
    }
    rates.after[keep] = turn(true);
  }
}

void compare_threads(const Options& options, size_t bytes) {
  std::barrier<> meet(static_cast<std::ptrdiff_t>(options.threads));
  std::vector<Rates> rates(options.threads, Rates(options.rounds));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < options.threads; ++i) {
    threads.emplace_back([&, i] { take_turns(options, bytes, i, meet, rates[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  Rates means(options.rounds);
  std::vector<double> ratios(options.rounds);
  for (size_t round = 0; round < options.rounds; ++round) {
    for (const Rates& each : rates) {
      means.before[round] += each.before[round] / static_cast<double>(options.threads);
      means.after[round] += each.after[round] / static_cast<double>(options.threads);
    }
    ratios[round] = means.after[round] / means.before[round];
  }
  fmt::print("{:>10}{:>18.0f}{:>16.0f}{:>10.3f}\n", size_text(bytes), median(means.before), median(means.after),
             median(ratios));
}

void compare_communicators(const Options& options, size_t bytes) {
  Driver driver(options.communicators, bytes);
  const auto turn = [&](size_t communicators) {
    driver.forget();
    const double rate = driver.rate(communicators, options.turn_ms);
    driver.check();
    return 1e6 / rate;
  };
  turn(options.communicators);
  std::vector<double> by_one, by_many, ratios;
  for (size_t round = 0; round < options.rounds; ++round) {
    by_one.push_back(turn(1));
    by_many.push_back(turn(options.communicators));
    ratios.push_back(by_many.back() / by_one.back());
  }
  fmt::print("{:>10}{:>18.3f}{:>16.3f}{:>10.3f}\n", size_text(bytes), median(by_one), median(by_many), median(ratios));
}

size_t bytes_of(const std::string& text) {
  const auto bytes = hocket::perf::parse_size(text);
  if (!bytes || *bytes < sizeof(float)) give_up(fmt::format("'{}' is no size of 4 bytes or more", text));
  return *bytes;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.threads = std::max(1U, std::thread::hardware_concurrency());
  CLI::App app("Whether communicators of one process hold each other up");
  auto* threads = app.add_option("--threads", options.threads, "that drive a communicator each; as many as cores")
                      ->check(CLI::Range(1, 1024));
  app.add_option("--communicators", options.communicators, "that one thread drives, instead of threads")
      ->check(CLI::Range(1, 10000))
      ->excludes(threads);
  app.add_option("--rounds", options.rounds, "in which each side has a turn")->check(CLI::Range(1, 10000));
  app.add_option("--turn", options.turn_ms, "milliseconds")->check(CLI::Range(1, 60000));
  app.add_option("sizes", options.sizes, "such as 8 or 4K");
  CLI11_PARSE(app, argc, argv);
  const bool of_threads = options.communicators == 0;
  if (of_threads) {
    fmt::print("all-reduces a second of each of {} threads\n{:>10}{:>18}{:>16}{:>10}\n", options.threads, "size",
               "alone", "all at once", "ratio");
  } else {
    fmt::print("microseconds of an all-reduce\n{:>10}{:>18}{:>16}{:>10}\n", "size", "one communicator",
               fmt::format("{} in turn", options.communicators), "ratio");
  }
  for (const std::string& size : options.sizes) {
    (of_threads ? compare_threads : compare_communicators)(options, bytes_of(size));
  }
  return 0;
}
