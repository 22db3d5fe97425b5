// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Long calls over several connections to each peer: right in every collective, and as many connections as were wished.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/grid.h"

namespace hocket::test {
namespace {

constexpr uint64_t kSeed = 1904;
constexpr size_t kLong = 70'001;  // elements: more than 64 KiB for each of four lanes

// One call of each kind, in place and not, that does not divide by lanes.
std::vector<Case> long_calls() {
  std::vector<Case> cases;
  for (int function = 0; function < kFunctions; ++function) {
    for (const Place place : {Place::kApart, Place::kInPlace}) {
      Case one;
      one.function = static_cast<Function>(function);
      if (place == Place::kInPlace && !can_be_in_place(one.function)) continue;
      one.type = hocketInt32;
      one.root = 1;
      one.count = kLong;
      one.place = place;
      cases.push_back(one);
    }
  }
  return cases;
}

int sockets() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count += std::filesystem::read_symlink(entry, gone).string().starts_with("socket:") ? 1 : 0;
  }
  return count;
}

// Those of the bootstrap may still be open for a while.
int settled_sockets() {
  int least = sockets();
  for (int look = 0; look < 50; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    least = std::min(least, sockets());
  }
  return least;
}

// Says how many sockets a long all-reduce opened beyond those of a short one.
const Role opener_role("opener", [](const Part& part) {
  const Member member = part.join(config_with_timeout(60000));
  std::vector<int32_t> values(kLong, 1);
  int before = 0;
  for (const size_t count : {size_t{1}, kLong}) {
    before = count == 1 ? 0 : settled_sockets();
    if (hocketAllReduce(values.data(), values.data(), count, hocketInt32, hocketSum, member.comm, nullptr) !=
        hocketSuccess) {
      return 1;
    }
  }
  std::printf("%d\n", sockets() - before);
  return values[kLong - 1] == part.ranks && hocketCommDestroy(member.comm) == hocketSuccess ? 0 : 1;
});

const Role caller_role("long", [](const Part& part) {
  const std::vector<Case> cases = long_calls();
  const Member member = part.join(config_with_timeout(60000));
  const Tally tally = run_cases_on(member, {"tcp", 0}, cases, kSeed);
  for (const std::string& fault : tally.faults) std::printf("FAULT %s\n", fault.c_str());
  return tally.faults.empty() && tally.calls == cases.size() && hocketCommDestroy(member.comm) == hocketSuccess ? 0 : 1;
});

Processes::Settings over(const std::string& lanes, const std::string& algorithm = "") {
  return {{"HOCKET_TRANSPORTS=tcp", "HOCKET_LANES=" + lanes, "HOCKET_ALGORITHM=" + algorithm}, {}, {}, true};
}

TEST(Lanes, EveryCollectiveIsRight) {
  for (const int ranks : {2, 3}) expect_success("long", ranks, over("4"), Seconds(100));
}

int more_sockets(const std::string& lanes) {
  Processes processes("opener", 2, over(lanes, "all_reduce=ring"));
  const std::vector<Processes::End> ends = processes.finish(Seconds(60));
  EXPECT_EQ(ends[0].status, 0) << ends[0].output;
  return std::atoi(ends[0].output.c_str());
}

// Each of two ranks in a ring sends to the other and receives from it, over one connection in each lane.
TEST(Lanes, AsManyConnectionsAsWished) {
  EXPECT_LE(more_sockets("1"), 0);
  const int more = more_sockets("4");
  EXPECT_LE(more, 3);
  EXPECT_GE(more, 2);  // one of the bootstrap's may have been open before
}

// Ranks that disagree say so instead of waiting for each other.
const Role quarreller_role("quarreller", [](const Part& part) {
  setenv("HOCKET_LANES", part.rank == 0 ? "1" : "4", 1);
  const Member member = part.join(config_with_timeout(20000));
  std::vector<int32_t> values(kLong, 1);
  const hocketResult_t result =
      hocketAllReduce(values.data(), values.data(), kLong, hocketInt32, hocketSum, member.comm, nullptr);
  std::printf("%s\n", hocketGetLastError(member.comm));
  return result == hocketSuccess ? 1 : 0;
});

TEST(Lanes, RanksWithDifferentWishesFail) {
  Processes processes("quarreller", 2, {{"HOCKET_TRANSPORTS=tcp", "HOCKET_ALGORITHM=ring"}, {}, {}, true});
  const std::vector<Processes::End> ends = processes.finish(Seconds(60));
  for (const Processes::End& end : ends) EXPECT_EQ(end.status, 0) << end.output;
  EXPECT_NE((ends[0].output + ends[1].output).find("another number of lanes (HOCKET_LANES)"), std::string::npos)
      << ends[0].output << ends[1].output;
}

}  // namespace
}  // namespace hocket::test
