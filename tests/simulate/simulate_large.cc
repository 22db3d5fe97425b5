// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// 1,024 ranks of every algorithm, and 100,000 ranks of the logarithmic ones, with the time (told) and the memory
// (limited) they take.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "simulate/simulate.h"

namespace hocket::simulate {
namespace {

constexpr int64_t kMaxKibibytes = int64_t{8} << 20;

NetworkModel cluster() {
  NetworkModel base;
  base.levels.resize(1);
  return *parse_network("8@40GB/s/300ns,32@12.5GB/s/2us,4096@100GB/s/5us", base);
}

int64_t peak_kibibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void run(const Builder& builder, Rank ranks, int64_t bytes) {
  BuildOptions options;
  options.ranks = ranks;
  if (!builder.fits(options)) return;
  const auto begin = std::chrono::steady_clock::now();
  const Result<Program> program = make_program(builder, options, {.bytes = bytes});
  EXPECT_TRUE(program.ok()) << program.status().message();
  const Outcome outcome = simulate(*program, LevelFabric(cluster(), ranks));
  EXPECT_TRUE(outcome.finished);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::string_view collective = name(builder.collective);
  std::printf("%-14.*s %-20.*s %7d ranks: %12.3f us simulated in %6.2f s, %lu messages, peak %ld MiB\n",
              static_cast<int>(collective.size()), collective.data(), static_cast<int>(builder.name.size()),
              builder.name.data(), ranks, static_cast<double>(outcome.end) / 1e6, seconds,
              static_cast<unsigned long>(outcome.messages), static_cast<long>(peak_kibibytes() / 1024));
}

TEST(SimulateLarge, AThousandRanksOfEveryAlgorithm) {
  for (const Builder& builder : builders()) run(builder, 1024, 1 << 16);
}

TEST(SimulateLarge, AHundredThousandRanksOfTheLogarithmicOnes) {
  for (const Builder& builder : builders()) {
    if (builder.logarithmic) run(builder, 100'000, 1 << 10);
  }
  EXPECT_LT(peak_kibibytes(), kMaxKibibytes);
}

}  // namespace
}  // namespace hocket::simulate
