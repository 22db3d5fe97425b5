// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Timelines of hosts whose clocks differ.
#include "observe/merge.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "observe/timeline.h"

namespace hocket {
namespace {

using testing::HasSubstr;

std::string event(const std::string& collective, int number, double begin, double end, int track,
                  const std::string& communicator = "job") {
  return fmt::format(R"({{"name": "{}", "cat": "{}", "ph": "X", "ts": {:.3f}, "dur": {:.3f}, "pid": {}, "tid": 0, )"
                     R"("args": {{"number": {}, "bytes": 8, "algorithm": "ring"}}}})",
                     collective, communicator, begin, end - begin, track, number);
}

std::optional<ClockOffset> offset_of_second(const std::vector<std::string>& first,
                                            const std::vector<std::string>& second) {
  const auto merged = merge_timelines({timeline_of(first), timeline_of(second)});
  EXPECT_TRUE(merged.ok()) << merged.status().message();
  EXPECT_EQ(merged->offsets[0]->microseconds, 0);
  return merged->offsets[1];
}

// Ranks of two hosts come to each call when they like, and leave it some time after the last has come.
TEST(Merge, FindsWhatTheClocksDifferBy) {
  constexpr double kBehind = -123456;
  std::mt19937 random(3);
  std::vector<std::string> hosts[2];
  for (int call = 0; call < 200; ++call) {
    double begin[4];
    for (double& each : begin) each = 1e15 + call * 1000 + static_cast<double>(random() % 300);
    const double met = *std::max_element(begin, begin + 4);
    for (int rank = 0; rank < 4; ++rank) {
      const double behind = rank < 2 ? 0 : kBehind;
      const double end = met + 5 + static_cast<double>(random() % 30);
      hosts[rank / 2].push_back(event("all_reduce", call, begin[rank] + behind, end + behind, rank));
    }
  }
  const auto offset = offset_of_second(hosts[0], hosts[1]);
  ASSERT_TRUE(offset.has_value());
  EXPECT_NEAR(offset->microseconds, -kBehind, offset->error);
  EXPECT_LT(offset->error, 20);
}

TEST(Merge, ShiftsWhatItFinds) {
  const auto merged =
      merge_timelines({timeline_of({event("barrier", 1, 100, 110, 1)}),
                       timeline_of({event("barrier", 1, 5100, 5110, 2), event("reduce", 2, 6000, 6001, 2)})});
  ASSERT_TRUE(merged.ok());
  EXPECT_DOUBLE_EQ(merged->offsets[1]->microseconds, -5000);
  EXPECT_DOUBLE_EQ(merged->offsets[1]->error, 10);
  EXPECT_THAT(merged->json, HasSubstr("\"ts\":100.0"));
  EXPECT_THAT(merged->json, HasSubstr("\"ts\":1000.0"));
  EXPECT_THAT(merged->json, testing::Not(HasSubstr("\"ts\":5100.0")));
}

TEST(Merge, TakesAClockAsItIsWhenNoCallTells) {
  const std::vector<std::string> first = {event("all_reduce", 1, 100, 110, 1), event("broadcast", 2, 200, 210, 1)};
  EXPECT_FALSE(offset_of_second(first, {}));
  EXPECT_FALSE(offset_of_second(first, {event("broadcast", 2, 5200, 5210, 2)})) << "its root waits for nobody";
  EXPECT_FALSE(offset_of_second(first, {event("all_reduce", 1, 100, 110, 2, "another job")}));
  const auto two = {event("all_reduce", 1, 5100, 5110, 2), event("all_reduce", 1, 9100, 9110, 2)};
  EXPECT_FALSE(offset_of_second(first, two)) << "two communicators of one name";
}

TEST(Merge, RefusesWhatIsNoTimeline) {
  const std::string good = timeline_of({event("barrier", 1, 100, 110, 1)});
  for (const char* bad : {"", "{}", "[]", "7", "{\"traceEvents\": 7}", "{\"traceEvents\": ["}) {
    const auto merged = merge_timelines({good, bad});
    ASSERT_FALSE(merged.ok()) << bad;
    EXPECT_THAT(merged.status().message(), HasSubstr("file 2 was not written by hocket trace"));
  }
  EXPECT_TRUE(merge_timelines({good, R"({"traceEvents": [7, {}, {"name": 7}, null]})"}).ok());
}

}  // namespace
}  // namespace hocket
