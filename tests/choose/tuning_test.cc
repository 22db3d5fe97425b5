// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "topology/discover.h"

namespace hocket {
namespace {

using testing::HasSubstr;

Tuning some() {
  Tuning tuning = built_in_tuning();
  tuning.machine = "some-machine";
  tuning.cores = 2;
  tuning.network.flow_byte = 1'600'000;
  tuning.routes = {.rings = {{0, 1, 3, 2}, {2, 3, 1, 0}},
                   .trees = {{0, 0, 1, 1}},
                   .loads = {{Collective::kAllReduce, "ring", 6666}, {Collective::kAllGather, "direct", 12}},
                   .rails = {0, 1, 1, 0}};
  tuning.best = {{Collective::kAllReduce, 4, Medium::kMemory, 1024, "one_shot"},
                 {Collective::kBroadcast, 8, Medium::kSocket, 4096, "binomial"},
                 {Collective::kAllReduce, 4, Medium::kNetwork, 4096, "ring"}};
  return tuning;
}

TEST(Tuning, WhatIsWrittenIsRead) {
  const Result<Tuning> again = parse_tuning(to_text(some()));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, some());
}

// A communicator of the same ranks in another order: what sat on a seat sits there still.
TEST(Tuning, RoutesFollowRanksThatAreNumberedOtherwise) {
  const LinkLoad routed = {.algorithm = "routed_rings", .byte = 1};
  const Routes routes = {.rings = {{0, 1, 3, 2}},
                         .trees = {{0, 0, 1, 1}},
                         .loads = {{.algorithm = "recursive_doubling", .byte = 2}, routed},
                         .rails = {0, 1, 2, 0}};
  const Routes other = renumbered(routes, std::array<Rank, 4>{2, 0, 3, 1});
  EXPECT_EQ(other.rings, (std::vector<std::vector<Rank>>{{1, 3, 2, 0}}));
  EXPECT_EQ(other.trees, (std::vector<std::vector<Rank>>{{3, 1, 3, 1}}));
  EXPECT_EQ(other.rails, (std::vector<int32_t>{2, 0, 0, 1}));
  EXPECT_EQ(other.loads, std::vector<LinkLoad>{routed});  // others are of another order
  EXPECT_EQ(renumbered(routes, std::array<Rank, 4>{0, 1, 2, 3}), routes);
  EXPECT_EQ(renumbered(routes, std::array<Rank, 3>{2, 0, 1}), routes);
}

TEST(Tuning, TheTextIsBounded) {
  Tuning tuning = some();
  for (int i = 0; i < 1000; ++i) tuning.best.push_back(tuning.best[0]);
  const std::string text = to_text(tuning);
  EXPECT_LE(text.size(), kMaxTuningText);
  EXPECT_GT(parse_tuning(text)->best.size(), 50u);
}

TEST(Tuning, EveryDamageIsFound) {
  const std::string text = to_text(some());
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(parse_tuning(text.substr(0, length)).ok()) << length;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(parse_tuning(damaged).ok()) << i;
  }
}

std::string with_checksum(const std::string& text) {
  uint32_t hash = 2166136261u;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  char end[16];
  std::snprintf(end, sizeof end, "end %08x\n", hash);
  return text + end;
}

TEST(Tuning, WrongTextsAreRefusedByLine) {
  for (const auto& [text, reason] : std::initializer_list<std::pair<std::string, std::string_view>>{
           {"hocket-tuning 7\n", "line 1: not 'hocket-tuning 9'"},
           {"hocket-tuning 9\ncolour red\n", "line 2: 'colour' is nothing that a tuning says"},
           {"hocket-tuning 9\ncores many\n", "line 2: 'many' is no number from 0 to"},
           {"hocket-tuning 9\ncores 1 2\n", "line 2: the line is too long"},
           {"hocket-tuning 9\nflow fast\n", "line 2: 'fast' is no number from 0 to"},
           {"hocket-tuning 9\nrank 1 2 3\n", "line 2: '' is no number"},
           {"hocket-tuning 9\nmemory 1 2 3 4 99999999999 6\n", "line 2: '99999999999' is no number from 0 to"},
           {"hocket-tuning 9\nbest all_reduce 4 pigeon 8 ring\n",
            "line 2: messages go through 'memory', a 'socket' or the 'network'"},
           {"hocket-tuning 9\nbest all_reduce 4 memory 8 pigeon\n", "line 2: there is no all_reduce by 'pigeon'"},
           {"hocket-tuning 9\nbest pigeon 4 memory 8 ring\n", "line 2: there is no pigeon by 'ring'"},
           {"hocket-tuning 9\nring 0 one\n", "line 2: 'one' is no number from 0 to"},
           {"hocket-tuning 9\nring 0 1\nrails 0 1 2\n", "the rails are not of the ranks of the rings"},
           {"hocket-tuning 9\nrails 0 1\nrails 0 1\n", "line 3: the rails are told twice"},
           {"hocket-tuning 9\nring 0 1 1\n", "the rings are no orders of the same ranks"},
           {"hocket-tuning 9\nring 0 1\nring 0 1 2\n", "the rings are no orders of the same ranks"},
           {"hocket-tuning 9\ntree 0 0\n", "the rings are no orders of the same ranks"},
           {"hocket-tuning 9\nring 0 1 2\ntree 0 2 1\n", "the trees do not join the ranks of the rings"},
           {"hocket-tuning 9\nload all_reduce pigeon 8\n", "line 2: there is no all_reduce by 'pigeon'"},
           {"hocket-tuning 9\nload all_reduce ring 8 8\n", "line 2: the line is too long"}}) {
    EXPECT_THAT(parse_tuning(with_checksum(text)).status().message(), HasSubstr(reason));
  }
  EXPECT_TRUE(parse_tuning(with_checksum("hocket-tuning 9\ncores 3\n")).ok());
}

TEST(Tuning, ANetworkFollowsFromThePlacement) {
  const NetworkModel one = network_of(some(), {.ranks = 4, .per_host = 4, .memory = true});
  ASSERT_EQ(one.levels.size(), 1u);
  EXPECT_EQ(one.levels[0].cost, some().memory);
  const NetworkModel two = network_of(some(), {.ranks = 5, .per_host = 4, .memory = false});
  ASSERT_EQ(two.levels.size(), 2u);
  EXPECT_EQ(two.levels[0].cost, some().socket);
  EXPECT_EQ(two.levels[0].children, 4);
  EXPECT_EQ(two.levels[1].cost, some().network);
}

TEST(Tuning, AFingerprintHasNoBlanks) {
  EXPECT_EQ(fingerprint(machine()).find(' '), std::string::npos);
  EXPECT_EQ(fingerprint(machine()), fingerprint(machine()));
}

// Launchers bind ranks to cores, and all have the machine's tuning file.
TEST(Tuning, AFingerprintIsTheMachinesWhereverAProcessIsBound) {
  Machine whole = machine();
  ASSERT_FALSE(whole.cpus.empty());
  Machine bound = topology::discover_hwloc({whole.cpus.back()}).value_or(topology::discover_sysfs({whole.cpus.back()}));
  topology::add_system_facts(bound);
  EXPECT_EQ(bound.cpus.size(), 1u);
  EXPECT_EQ(fingerprint(bound), fingerprint(whole));
}

}  // namespace
}  // namespace hocket
