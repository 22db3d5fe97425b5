// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The table of settings: defaults, good and bad values, unknown names, and that its page in docs/ is up to date.
#include "base/settings.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace hocket {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

std::string message_for(const Environment& environment) { return parse_settings(environment).status().message(); }

TEST(SettingsTest, DefaultsHoldInAnEmptyEnvironment) {
  const auto settings = parse_settings({{"HOME", "/root"}, {"HOCKE", "x"}, {"HOCKETX", "x"}});
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->timeout, seconds(5));
  EXPECT_EQ(settings->operation_timeout, minutes(10));
  EXPECT_EQ(settings->log, LogLevel::kWarn);
  EXPECT_LT(settings->spin.count(), 0);
  EXPECT_EQ(settings->rank, -1);
  EXPECT_EQ(settings->size, -1);
  EXPECT_EQ(settings->local_rank, -1);
  EXPECT_EQ(settings->local_size, -1);
  for (const std::string* each : {&settings->transports, &settings->interface, &settings->algorithm, &settings->address,
                                  &settings->secret, &settings->host_id}) {
    EXPECT_EQ(*each, "");
  }
}

TEST(SettingsTest, EveryVariableFillsItsMember) {
  const auto settings = parse_settings({{"HOCKET_TIMEOUT", "500ms"},
                                        {"HOCKET_OPERATION_TIMEOUT", "2h"},
                                        {"HOCKET_LOG", "debug"},
                                        {"HOCKET_TRANSPORTS", "tcp"},
                                        {"HOCKET_INTERFACE", "^docker,lo"},
                                        {"HOCKET_RDMA_SERVICE_LEVEL", "15"},
                                        {"HOCKET_RDMA_TRAFFIC_CLASS", "255"},
                                        {"HOCKET_ALGORITHM", "all_reduce=ring"},
                                        {"HOCKET_SPIN", "25"},
                                        {"HOCKET_RANK", "3"},
                                        {"HOCKET_SIZE", "4"},
                                        {"HOCKET_LOCAL_RANK", "1"},
                                        {"HOCKET_LOCAL_SIZE", "2"},
                                        {"HOCKET_ADDRESS", "node-a:4411"},
                                        {"HOCKET_SECRET", "hush"},
                                        {"HOCKET_HOST_ID", "b"}});
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->timeout, milliseconds(500));
  EXPECT_EQ(settings->operation_timeout, std::chrono::hours(2));
  EXPECT_EQ(settings->log, LogLevel::kDebug);
  EXPECT_EQ(settings->transports, "tcp");
  EXPECT_EQ(settings->interface, "^docker,lo");
  EXPECT_EQ(settings->rdma_service_level, 15);
  EXPECT_EQ(settings->rdma_traffic_class, 255);
  EXPECT_EQ(settings->algorithm, "all_reduce=ring");
  EXPECT_EQ(settings->spin, microseconds(25));
  EXPECT_EQ(settings->rank, 3);
  EXPECT_EQ(settings->size, 4);
  EXPECT_EQ(settings->local_rank, 1);
  EXPECT_EQ(settings->local_size, 2);
  EXPECT_EQ(settings->address, "node-a:4411");
  EXPECT_EQ(settings->secret, "hush");
  EXPECT_EQ(settings->host_id, "b");
}

TEST(SettingsTest, DurationsHaveUnits) {
  const std::map<std::string, Duration> cases = {{"5", seconds(5)},
                                                 {"0.25", milliseconds(250)},
                                                 {"5s", seconds(5)},
                                                 {"250us", microseconds(250)},
                                                 {"1.5s", milliseconds(1500)},
                                                 {"10min", minutes(10)},
                                                 {"1000h", std::chrono::hours(1000)}};
  for (const auto& [text, expected] : cases) {
    const auto settings = parse_settings({{"HOCKET_TIMEOUT", text}});
    ASSERT_TRUE(settings.ok()) << text << ": " << settings.status().message();
    EXPECT_EQ(settings->timeout, expected) << text;
  }
}

TEST(SettingsTest, BadValuesNameTheVariableTheValueAndWhatWasExpected) {
  for (const char* text : {"0", "-1s", "5 s", "s", "5d", "five", "nan", "inf", "1e300", "1001h", "5s5", "0x5"}) {
    const auto settings = parse_settings({{"HOCKET_TIMEOUT", text}});
    ASSERT_FALSE(settings.ok()) << text;
    EXPECT_EQ(settings.status().code(), Code::kInvalidUsage);
    EXPECT_EQ(settings.status().message(),
              "HOCKET_TIMEOUT='" + std::string(text) +
                  "' in the environment: expected a duration like 500ms, 5s or 10min, above 0 and at most 1000h");
  }
  EXPECT_EQ(message_for({{"HOCKET_LOG", "loud"}}),
            "HOCKET_LOG='loud' in the environment: expected error, warn, info or debug");
  for (const char* text : {"-1", "1x", "2147483648", "one", " 1"}) {
    EXPECT_EQ(message_for({{"HOCKET_RANK", text}}),
              "HOCKET_RANK='" + std::string(text) + "' in the environment: expected a number from 0 to 2147483647");
  }
  EXPECT_EQ(message_for({{"HOCKET_RDMA_SERVICE_LEVEL", "16"}}),
            "HOCKET_RDMA_SERVICE_LEVEL='16' in the environment: expected a number from 0 to 15");
  EXPECT_EQ(message_for({{"HOCKET_RDMA_TRAFFIC_CLASS", "256"}}),
            "HOCKET_RDMA_TRAFFIC_CLASS='256' in the environment: expected a number from 0 to 255");
  EXPECT_FALSE(parse_settings({{"HOCKET_SIZE", "0"}}).ok());
  EXPECT_FALSE(parse_settings({{"HOCKET_SPIN", "-2"}}).ok());
}

TEST(SettingsTest, AnEmptyValueIsNotSet) {
  const auto settings = parse_settings({{"HOCKET_TIMEOUT", ""}, {"HOCKET_RANK", ""}, {"HOCKET_LOG", ""}});
  ASSERT_TRUE(settings.ok()) << settings.status().message();
  EXPECT_EQ(settings->timeout, seconds(5));
  EXPECT_EQ(settings->rank, -1);
}

TEST(SettingsTest, AnUnknownNameIsAnErrorWithTheNearestKnownOne) {
  EXPECT_EQ(message_for({{"HOCKET_TIMOUT", "5"}}),
            "the environment has HOCKET_TIMOUT, which is no setting: did you mean HOCKET_TIMEOUT?");
  EXPECT_EQ(message_for({{"HOCKET_WORLD_SIZE", "5"}}),
            "the environment has HOCKET_WORLD_SIZE, which is no setting: did you mean HOCKET_LOCAL_SIZE?");
  EXPECT_EQ(message_for({{"HOCKET_", ""}}),
            "the environment has HOCKET_, which is no setting: did you mean HOCKET_LOG?");
}

TEST(SettingsTest, TheirPageIsUpToDate) {
  std::ifstream file(HOCKET_SOURCE_DIR "/docs/settings.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), settings_markdown()) << "to renew it: <build>/tests/base/print_settings > docs/settings.md";
}

}  // namespace
}  // namespace hocket
