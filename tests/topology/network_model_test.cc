// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/network_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hocket {
namespace {

using testing::HasSubstr;

NetworkModel base() {
  NetworkModel model;
  model.levels.resize(2);
  model.levels[0].cost.send = 11;
  model.levels[1].cost.send = 22;
  return model;
}

TEST(NetworkModel, LevelsAreRead) {
  const Result<NetworkModel> model = parse_network("8@40GB/s/300ns,16@12.5GB/s/2us,4@100Gbit/s/5us", base());
  ASSERT_TRUE(model.ok()) << model.status().message();
  ASSERT_EQ(model->levels.size(), 3u);
  EXPECT_EQ(model->levels[0].children, 8);
  EXPECT_EQ(model->levels[0].cost.wire_byte, 25'000);
  EXPECT_EQ(model->levels[0].cost.latency, 300'000);
  EXPECT_EQ(model->levels[1].cost.wire_byte, 80'000);
  EXPECT_EQ(model->levels[2].cost.wire_byte, 80'000);
  EXPECT_EQ(model->levels[0].cost.send, 11);
  EXPECT_EQ(model->levels[2].cost.send, 22);  // of the outermost that there is
  EXPECT_THAT(describe(*model), HasSubstr("rack: 16 children, 2000 ns apart, ports of 12.5 GB/s"));
}

TEST(NetworkModel, AConnectionMayBeSlowerThanItsPort) {
  const Result<NetworkModel> model = parse_network("8@40GB/s/300ns,16@100Gbit/s/2us/5Gbit/s", base());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->levels[0].cost.flow_byte, 0);
  EXPECT_EQ(model->levels[1].cost.wire_byte, 80'000);
  EXPECT_EQ(model->levels[1].cost.latency, 2'000'000);
  EXPECT_EQ(model->levels[1].cost.flow_byte, 1'600'000);
  EXPECT_THAT(describe(*model), HasSubstr("ports of 12.5 GB/s, 0.625 GB/s a connection"));
  EXPECT_THAT(describe(*model), Not(HasSubstr("fast path")));
  NetworkModel bound = *model;
  bound.levels[0].cost.unbound = 70'000;
  EXPECT_THAT(describe(bound), HasSubstr(", each 70 ns more off the fast path\n"));
  for (const char* text : {"8", "8@", "8@40GB/s", "8@40GB", "8@40GB/s/", "8@40GB/s/1us/", "8@40GB/s/1us/1us", "8@/"}) {
    EXPECT_FALSE(parse_network(text, base()).ok()) << text;
  }
}

TEST(NetworkModel, TheLevelOfTwoRanksIsTheInnermostThatHoldsBoth) {
  const NetworkModel model = *parse_network("4@1GB/s/1us,3@1GB/s/1us", base());
  EXPECT_EQ(model.level_of(0, 3), 0u);
  EXPECT_EQ(model.level_of(3, 4), 1u);
  EXPECT_EQ(model.level_of(0, 100), 1u);  // the outermost is as wide as needed
}

TEST(NetworkModel, QuantitiesAreRead) {
  EXPECT_EQ(*parse_time("1.5us"), 1'500'000);
  EXPECT_EQ(*parse_time("0ns"), 0);
  EXPECT_EQ(*parse_rate("1MB/s"), 1'000'000'000);
  EXPECT_EQ(*parse_size("64M"), 64 << 20);
  EXPECT_EQ(*parse_size("17"), 17);
}

TEST(NetworkModel, WrongTextsAreRefused) {
  for (const char* text :
       {"", "8", "8@40GB/s", "@40GB/s/1us", "0@40GB/s/1us", "8@40GB/s/1us,", "8@40/1us", "99999999999@1GB/s/1us",
        "8@0GB/s/1us", "8@1GB/s/1", "8@1GB/s/-1us", "8@nanGB/s/1us", "8@1e3GB/s/1us", "1@1GB/s/99999999s",
        "1@1GB/s/1s,1@1GB/s/1s,1@1GB/s/1s,1@1GB/s/1s,1@1GB/s/1s,1@1GB/s/1s,1@1GB/s/1s,1@1GB/s/1s,"
        "1@1GB/s/1s"}) {
    EXPECT_FALSE(parse_network(text, base()).ok()) << text;
  }
  EXPECT_EQ(parse_time("5 us").status().message(), "'5 us' is no time, such as 1.5us");
  EXPECT_EQ(parse_rate("999KB/s").status().message(), "'999KB/s' is no rate, such as 12.5GB/s");
}

}  // namespace
}  // namespace hocket
