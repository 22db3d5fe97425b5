// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "perf/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf/report.h"
#include "perf/statistics.h"

namespace hocket::perf {
namespace {

using testing::ElementsAre;

TEST(Sizes, AreReadInPowersOf1024) {
  EXPECT_EQ(parse_size("0"), 0u);
  EXPECT_EQ(parse_size("8"), 8u);
  EXPECT_EQ(parse_size("64K"), 64u << 10);
  EXPECT_EQ(parse_size("3m"), 3u << 20);
  EXPECT_EQ(parse_size("1.5M"), 3u << 19);
  EXPECT_EQ(parse_size("2G"), size_t{2} << 30);
  EXPECT_EQ(parse_size("16 k"), 16u << 10);
}

TEST(Sizes, AreRefusedWhenTheyMeanNothing) {
  for (const char* text :
       {"", "K", "-1", "-0", "8T", "8KB", "8 K ", "0x8", "nan", "inf", "1e30", "99999999999999999G", "8,"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Sizes, AreWrittenInTheLargestExactUnit) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1000), "1000 B");
  EXPECT_EQ(size_text(1536), "1536 B");
  EXPECT_EQ(size_text(64 << 20), "64 MiB");
}

TEST(Sizes, FollowEachOtherByFactorOrStep) {
  EXPECT_THAT(sizes_of({.first = 8, .last = 600, .step = 1, .factor = 8}), ElementsAre(8, 64, 512));
  EXPECT_THAT(sizes_of({.first = 8, .last = 32, .step = 8}), ElementsAre(8, 16, 24, 32));
  EXPECT_THAT(sizes_of({.first = 8, .last = 8}), ElementsAre(8));
  EXPECT_THAT(sizes_of({.first = 0, .last = 0, .factor = 2}), ElementsAre(0));
}

TEST(Numbers, KeepTheDecimalsThatFit) {
  EXPECT_EQ(fitted(3.14159, 7), "   3.14");
  EXPECT_EQ(fitted(1234.567, 7), "1234.57");
  EXPECT_EQ(fitted(12345.67, 7), "12345.7");
  EXPECT_EQ(fitted(1234567.8, 7), "1234568");
  EXPECT_EQ(fitted(12345678.9, 7), "1.2e+07");
  EXPECT_EQ(fitted(123456.7, 6), "123457");
  EXPECT_EQ(fitted(12345678.9, 6), " 1e+07");
}

TEST(Statistics, TakeTheNearestRank) {
  std::vector<double> times;
  for (int i = 100; i > 0; --i) times.push_back(i);
  const Statistics s = statistics_of(times);
  EXPECT_EQ(s.minimum, 1);
  EXPECT_EQ(s.maximum, 100);
  EXPECT_EQ(s.p50, 51);
  EXPECT_EQ(s.p90, 90);
  EXPECT_EQ(s.p95, 95);
  EXPECT_EQ(s.p99, 99);
  EXPECT_DOUBLE_EQ(s.mean, 50.5);
  EXPECT_NEAR(s.deviation, 28.866, 0.001);
  EXPECT_EQ(statistics_of(std::vector<double>{7}).p99, 7);
}

}  // namespace
}  // namespace hocket::perf
