// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transports/pipe.h"

namespace hocket {
namespace {

std::vector<std::string_view> names(const std::vector<const Transport*>& list) {
  std::vector<std::string_view> found;
  for (const Transport* transport : list) found.push_back(transport->name());
  return found;
}

bool reaches(std::string_view name, const PeerInfo& self, const PeerInfo& peer) {
  return choose_transports(name).value().front()->reaches(self, peer);
}

std::string listed() {
  std::string names = "local, shm, ";
#ifdef HOCKET_WITH_VERBS
  names += "verbs, ";
#endif
#ifdef HOCKET_WITH_UCX
  names += "ucx, ";
#endif
  return names + "tcp";
}

TEST(Registry, TakesThoseThatNeedNotBeAskedForInOrderOfPreference) {
  EXPECT_THAT(names(*choose_transports("")), testing::ElementsAre("local", "shm", "tcp"));
}

// Whatever else a build has: processes of two builds meet.
TEST(Registry, ATransportsNumberIsThatOfItsName) {
  EXPECT_EQ(transport_of(0)->name(), "local");
  EXPECT_EQ(transport_of(1)->name(), "shm");
  EXPECT_EQ(transport_of(2)->name(), "tcp");
  for (const Transport* transport : transports()) EXPECT_EQ(transport_of(number_of(*transport)), transport);
  EXPECT_EQ(transport_of(5), nullptr);
  EXPECT_EQ(transport_of(255), nullptr);
}

TEST(Registry, KeepsTheOrderAskedFor) {
  EXPECT_THAT(names(*choose_transports("tcp,local")), testing::ElementsAre("tcp", "local"));
  EXPECT_THAT(names(*choose_transports("shm")), testing::ElementsAre("shm"));
}

TEST(Registry, NamesTheKnownOnesWhenOneIsUnknown) {
  const Status status = choose_transports("shm,pigeon").status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(), fmt::format("no transport is called 'pigeon'; there are {}", listed()));
  for (const char* wrong : {",", "shm,", ",shm", " shm", "SHM"}) EXPECT_FALSE(choose_transports(wrong).ok()) << wrong;
}

TEST(Registry, RefusesATransportListedTwice) {
  EXPECT_EQ(choose_transports("tcp,shm,tcp").status().message(), "transport 'tcp' is listed twice in 'tcp,shm,tcp'");
}

TEST(Registry, EachReachesAsFarAsItCan) {
  PeerInfo self;
  self.process = 1;
  self.host_identity = "a";
  self.addresses = {"10.0.0.1:1"};
  PeerInfo thread = self;
  PeerInfo process = self;
  process.process = 2;
  PeerInfo other_host = process;
  other_host.host_identity = "b";
  PeerInfo unreachable = other_host;
  unreachable.addresses.clear();
  EXPECT_TRUE(reaches("local", self, thread));
  EXPECT_FALSE(reaches("local", self, process));
  EXPECT_TRUE(reaches("shm", self, process));
  EXPECT_FALSE(reaches("shm", self, other_host));
  EXPECT_TRUE(reaches("tcp", self, other_host));
  EXPECT_FALSE(reaches("tcp", self, unreachable));
}

}  // namespace
}  // namespace hocket
