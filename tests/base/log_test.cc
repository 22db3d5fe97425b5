// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The log: whole lines, the level, and nothing in them that begins another line.
#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <thread>
#include <vector>

namespace hocket {
namespace {

using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

TEST(LogTest, ALineSaysWhenWhereWhoAndWhat) {
  set_log_rank(7);
  CaptureStderr();
  log_warn("{} of {}", 1, 2);
  set_log_rank(-1);
  log_error("no rank");
  const std::string lines = GetCapturedStderr();
  EXPECT_THAT(lines, testing::ContainsRegex("^20[0-9-]+ [0-9:.]+ [^ ]+:[0-9]+ rank 7 hocket warn: 1 of 2\n"));
  EXPECT_THAT(lines, testing::ContainsRegex("\n20[0-9-]+ [0-9:.]+ [^ ]+:[0-9]+ hocket error: no rank\n$"));
}

TEST(LogTest, TheLevelDecides) {
  CaptureStderr();
  log_info("too quiet");
  log_debug("too quiet");
  EXPECT_EQ(GetCapturedStderr(), "");
  EXPECT_TRUE(logs(LogLevel::kWarn));
  EXPECT_FALSE(logs(LogLevel::kInfo));
}

TEST(LogTest, AMessageIsOneLineOfBoundedLength) {
  CaptureStderr();
  log_warn("two\nlines\x1b[31m");
  log_warn("{}", std::string(10000, 'x'));
  const std::string lines = GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  EXPECT_THAT(lines, testing::HasSubstr("two lines [31m\n"));
  EXPECT_THAT(lines, testing::EndsWith("xxx...\n"));
  EXPECT_LT(lines.size(), 4096u + 200u);
}

TEST(LogTest, LinesOfThreadsDoNotMix) {
  CaptureStderr();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([i] {
        for (int j = 0; j < 50; ++j) log_warn("{}", std::string(100, static_cast<char>('a' + i)));
      });
    }
  }
  std::istringstream lines(GetCapturedStderr());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_GE(line.size(), 100u);
    const std::string text = line.substr(line.size() - 100);
    ASSERT_EQ(text, std::string(100, text[0])) << line;
  }
  EXPECT_EQ(count, 200);
}

}  // namespace
}  // namespace hocket
