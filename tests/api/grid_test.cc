// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A sample of the grid that covers every function, type and operation, and, with GRID_FULL set, all of it. Settings
// are read once per process, so that every transport and choice of algorithms has a process of its own.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>
#include <string>

#include "tests/api/grid.h"

namespace hocket::test {
namespace {

constexpr size_t kSampledCases = 120;  // of every cell and rank count

bool is_full() { return std::getenv("GRID_FULL") != nullptr; }

// Today's date, so that every day sees another sample; GRID_SEED repeats one.
uint64_t daily_seed() {
  if (const char* seed = std::getenv("GRID_SEED")) return std::strtoull(seed, nullptr, 10);
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  return static_cast<uint64_t>((date.tm_year + 1900) * 10000 + (date.tm_mon + 1) * 100 + date.tm_mday);
}

std::vector<Case> cases_of(const Cell& cell, int ranks, uint64_t seed) {
  return is_full() ? all_cases(cell, ranks) : sample_cases(cell, ranks, kSampledCases, seed);
}

// Arguments: transport, choice, seed.
int run_cell(const Part& part) {
  const Cell cell{part.arguments[0], std::atoi(part.arguments[1].c_str())};
  const uint64_t seed = std::strtoull(part.arguments[2].c_str(), nullptr, 10);
  size_t faults = 0;
  for (const int ranks : kRankCounts) {
    const std::vector<Case> cases = cases_of(cell, ranks, seed);
    if (cases.empty()) continue;
    const auto start = std::chrono::steady_clock::now();
    const Tally tally = run_cases(cell, ranks, cases, seed);
    const Seconds took = std::chrono::steady_clock::now() - start;
    std::printf("%d ranks: %zu calls right, %zu refused as they must be, %.1f s\n", ranks, tally.calls, tally.refused,
                took.count());
    for (const std::string& fault : tally.faults) std::printf("FAULT %s\n", fault.c_str());
    faults += tally.faults.size();
  }
  return faults == 0 ? 0 : 1;
}

const Role grid_role("grid", run_cell);

std::string cell_name(const testing::TestParamInfo<Cell>& info) {
  return info.param.transport + "_" +
         (info.param.choice == 0 ? "chosen" : "forced" + std::to_string(info.param.choice));
}

class Grid : public testing::TestWithParam<Cell> {};

TEST_P(Grid, EveryElementIsRight) {
  const Cell& cell = GetParam();
  const uint64_t seed = daily_seed();
  std::printf("GRID_SEED=%lu\n", static_cast<unsigned long>(seed));
  Processes::Settings settings;
  settings.environment = {"HOCKET_TRANSPORTS=" + cell.transport, "HOCKET_ALGORITHM=" + cell.setting()};
  settings.arguments = {cell.transport, std::to_string(cell.choice), std::to_string(seed)};
  settings.unique_id = false;
  Processes process("grid", 1, settings);
  const Processes::End end = process.finish(Seconds(is_full() ? 3600 : 200))[0];
  EXPECT_FALSE(end.hung);
  EXPECT_EQ(end.status, 0) << end.output;
  if (is_full()) std::printf("%s", end.output.c_str());
}

INSTANTIATE_TEST_SUITE_P(Cells, Grid, testing::ValuesIn(cells()), cell_name);

// What the sample promises, whatever the date.
TEST(GridSample, CoversEveryFunctionTypeAndOperation) {
  const auto key = [](const Case& one) {
    return std::string(function_name(one.function)) + type_name(one.type) + operation_name(one.operation);
  };
  std::set<std::string> all;
  std::set<std::string> sampled;
  for (const Cell& cell : cells()) {
    for (const int ranks : kRankCounts) {
      if (cell.choice == 0 && ranks == 1) {
        for (const Case& one : all_cases(cell, ranks)) all.insert(key(one));
      }
      for (const Case& one : sample_cases(cell, ranks, kSampledCases, daily_seed())) sampled.insert(key(one));
    }
  }
  EXPECT_EQ(sampled, all);
}

}  // namespace
}  // namespace hocket::test
