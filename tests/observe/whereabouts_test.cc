// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "observe/whereabouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace hocket {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(WaitReport, SaysWhoWaitsForWhomAndWhoNeverCame) {
  std::map<int32_t, Whereabouts> ranks;
  for (const int32_t rank : {0, 1, 2, 4}) ranks[rank] = {7, "barrier", 3, 900};
  ranks[3] = {6, "all_reduce(count 1, int32, sum)", -1, 0};
  ranks[5] = {7, "barrier", 4, 1200};
  EXPECT_EQ(wait_report(ranks),
            "who waits for whom (the longest for 1200 ms):\n"
            "  rank 3 waits for nobody; the last call was all_reduce(count 1, int32, sum) (collective #6)\n"
            "  ranks 0-2, 4 wait for rank 3 in barrier (collective #7)\n"
            "  rank 5 waits for rank 4 in barrier (collective #7)\n"
            "  never came to collective #7: rank 3");
}

TEST(WaitReport, NamesRanksThatCalledNothing) {
  EXPECT_THAT(wait_report({{0, {1, "barrier", 1, 5}}, {1, {}}}),
              HasSubstr("rank 1 has called nothing yet\n  rank 0 waits for rank 1"));
  EXPECT_THAT(wait_report({{0, {}}, {1, {}}}), Not(HasSubstr("never came")));
}

TEST(WaitReport, StaysOnePageForManyRanks) {
  std::map<int32_t, Whereabouts> ranks;
  for (int32_t rank = 0; rank < 2000; ++rank) ranks[rank] = {9, "barrier", (rank + 1) % 2000, 5};
  const std::string page = wait_report(ranks);
  EXPECT_LE(std::count(page.begin(), page.end(), '\n'), 52);
  EXPECT_THAT(page, HasSubstr("and 1950 more kinds"));
}

}  // namespace
}  // namespace hocket
