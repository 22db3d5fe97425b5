// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Many ranks, and many bytes.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/api/grid.h"
#include "tests/api/huge.h"

namespace hocket::test {
namespace {

constexpr uint64_t kSeed = 64;

// A call of each kind, small and not divisible, and one that is longer than a slice.
std::vector<Case> one_of_each() {
  std::vector<Case> cases;
  for (int function = 0; function < kFunctions; ++function) {
    Case one;
    one.function = static_cast<Function>(function);
    one.type = function % 2 == 0 ? hocketInt32 : hocketFloat64;
    one.root = 3;
    one.count = 13;
    cases.push_back(one);
    one.count = function < 3 ? 50021 : 517;
    cases.push_back(one);
  }
  return cases;
}

void expect_right(const Tally& tally, size_t calls) {
  EXPECT_EQ(tally.calls, calls);
  for (const std::string& fault : tally.faults) ADD_FAILURE() << fault;
}

TEST(Scale, SixtyFourThreads) {
  const std::vector<Case> cases = one_of_each();
  expect_right(run_cases(Cell{"local", 0}, 64, cases, kSeed), 64 * cases.size());
}

// As processes: every rank walks through the same cases. Arguments: transport, seed, number of cases (0: one of each).
const Role walk_role("walk", [](const Part& part) {
  const Cell cell{part.arguments[0], 0};
  const uint64_t seed = std::strtoull(part.arguments[1].c_str(), nullptr, 10);
  const size_t count = std::strtoull(part.arguments[2].c_str(), nullptr, 10);
  const std::vector<Case> cases = count == 0 ? one_of_each() : sample_cases(cell, part.ranks, count, seed);
  const Member member = part.join(config_with_timeout(60000));
  const Tally tally = run_cases_on(member, cell, cases, seed);
  for (const std::string& fault : tally.faults) std::printf("FAULT %s\n", fault.c_str());
  return tally.faults.empty() && hocketCommDestroy(member.comm) == hocketSuccess ? 0 : 1;
});

Processes::Settings walk(const std::string& transport, uint64_t seed, size_t count) {
  return {{"HOCKET_TRANSPORTS=" + transport}, {transport, std::to_string(seed), std::to_string(count)}, {}, true};
}

TEST(Scale, ThirtyTwoProcesses) { expect_success("walk", 32, walk("shm", kSeed, 0), Seconds(200)); }

TEST(Scale, FourProcessesInEveryWay) {
  for (const char* transport : {"shm", "tcp"}) {
    for (const int ranks : {2, 3, 4}) expect_success("walk", ranks, walk(transport, kSeed, 200), Seconds(100));
  }
}

TEST(Huge, AllReduceOfMoreThanTwoToThe31Elements) {
  constexpr size_t kCount = (size_t{1} << 31) + 12345;
  run_threads(2, [&](Member& member) {
    const Pages pages(kCount);
    fill_huge(pages.data(), kCount, member.rank);
    ASSERT_EQ(hocketAllReduce(pages.data(), pages.data(), kCount, hocketInt8, hocketMax, member.comm, nullptr),
              hocketSuccess)
        << hocketGetLastError(member.comm);
    expect_huge(pages.data(), kCount, 1);  // the larger one at every position
  });
}

}  // namespace
}  // namespace hocket::test
