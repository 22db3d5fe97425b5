// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What check() rejects in one rank's plan, each fault planted in a plan that is right without it.
#include "plan/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "plan/text.h"
#include "plan/write.h"

namespace hocket {
namespace {

using plan::add;
using plan::at;
using plan::first;
using plan::from;
using plan::recv;
using plan::scratch;
using plan::send;
using plan::to;
using testing::HasSubstr;

Plan sound() {
  Plan result = plan::begin(Collective::kAllReduce, "sample", {.rank = 1, .ranks = 4}, 2, 8);
  result.scratch_chunks = 4;
  add(result.lanes[0], {recv(0, 2), to(2)}, {from(0), first(send(0, 2))});
  add(result.lanes[0], {recv(0, 2)}, {recv(0, 2), scratch(2, 2)}).after = {{.lane = 1, .step = 0}};
  add(result.lanes[1], {scratch(2, 2)}, {send(6, 2)});
  return result;
}

struct Fault {
  const char* message;
  std::function<void(Plan&)> plant;
};

Step& step(Plan& plan) { return plan.lanes[0].steps[0]; }

const Fault kFaults[] = {
    {"number of ranks is 0", [](Plan& p) { p.ranks = 0; }},
    {"rank is 4, not 0 to 3", [](Plan& p) { p.rank = 4; }},
    {"root is -1, not 0 to 3", [](Plan& p) { p.root = -1; }},
    {"number of send chunks is 0", [](Plan& p) { p.send_chunks = 0; }},
    {"number of receive chunks is", [](Plan& p) { p.recv_chunks = kMaxChunks + 1; }},
    {"number of scratch chunks is -1", [](Plan& p) { p.scratch_chunks = -1; }},
    {"number of chunks in a message is 0", [](Plan& p) { p.message_chunks = 0; }},
    {"depth is 0", [](Plan& p) { p.depth = 0; }},
    {"number of lanes is 65", [](Plan& p) { p.lanes.resize(kMaxLanes + 1); }},
    {"algorithm name is not", [](Plan& p) { p.algorithm = "a b"; }},
    {"algorithm name is not", [](Plan& p) { p.algorithm = ""; }},
    {"65 sources exceed the limit of 64", [](Plan& p) { step(p).sources.resize(65, send(0, 2)); }},
    {"65 destinations exceed the limit of 64", [](Plan& p) { step(p).destinations.resize(65, to(2)); }},
    {"the step does nothing", [](Plan& p) { step(p) = {}; }},
    {"3 regions exceed the limit of 2", [](Plan& p) { step(p).sources[1].regions.resize(3); }},
    {"first chunk is 8, not 0 to 7", [](Plan& p) { step(p).sources[1] = send(8, 2); }},
    {"first chunk is -1, not 0 to 7", [](Plan& p) { step(p).sources[1] = send(-1, 2); }},
    {"number of blocks is 9, not 0 to 8", [](Plan& p) { step(p).sources[1].regions[0].count = 9; }},
    {"length of a block is 0, not 1 to 8", [](Plan& p) { step(p).sources[1].regions[0].block = 0; }},
    {"number of chunks of a place is 16", [](Plan& p) { step(p).sources[1].regions[0].count = 8; }},
    {"places of 3 and 2 chunks do not fit together", [](Plan& p) { step(p).sources[1] = send(0, 3); }},
    {"a destination is marked first", [](Plan& p) { step(p).destinations[0].first = true; }},
    {"a message is marked first", [](Plan& p) { step(p).sources[0].first = true; }},
    {"a message has regions", [](Plan& p) { step(p).sources[0].regions = {{}}; }},
    {"peer is 4, not 0 to 3", [](Plan& p) { step(p).sources[0].peer = 4; }},
    {"goes to or comes from its own rank", [](Plan& p) { step(p).sources[0].peer = 1; }},
    {"peer is 4, not 0 to 3", [](Plan& p) { step(p).sources[1] = at(4, send(0, 2)); }},
    {"a window is that of its own rank", [](Plan& p) { step(p).sources[1] = at(1, send(0, 2)); }},
    {"a window is of scratch", [](Plan& p) { step(p).sources[1] = at(2, scratch(0, 2)); }},
    {"first chunk is 8, not 0 to 7", [](Plan& p) { step(p).sources[1] = at(2, send(8, 2)); }},
    {"source recv[1..2] at 2 overlaps destination recv[0..1] at 2 otherwise",
     [](Plan& p) {
       step(p).destinations[0] = at(2, recv(0, 2));
       step(p).sources[1] = at(2, recv(1, 2));
     }},
    {"rank 0 is a source twice", [](Plan& p) { step(p).sources.push_back(from(0)); }},
    {"rank 2 is a destination twice", [](Plan& p) { step(p).destinations.push_back(to(2)); }},
    {"bytes without a source", [](Plan& p) { step(p).sources.clear(); }},
    {"bytes without a source or without a destination", [](Plan& p) { step(p).destinations.clear(); }},
    {"a signal is marked last", [](Plan& p) { plan::finish(p.lanes[0], {to(2)}, {}); }},
    {"destinations recv[0..1] and recv[1..2] overlap", [](Plan& p) { step(p).destinations.push_back(recv(1, 2)); }},
    {"recv[0 x 2 by 8] names a chunk twice",
     [](Plan& p) { step(p).destinations[0].regions = {{.first = 0, .count = 2, .stride = 8, .block = 1}}; }},
    {"source recv[1..2] overlaps destination recv[0..1] otherwise",
     [](Plan& p) { p.lanes[0].steps[1].sources[0] = recv(1, 2); }},
    {"source recv[7..8] overlaps destination recv[0..1] otherwise",
     [](Plan& p) { p.lanes[0].steps[1].sources[0] = recv(7, 2); }},
    {"rank 1 lane 0 step 0: it waits for 1.1, which does not exist", [](Plan& p) { step(p).after = {{1, 1}}; }},
    {"it waits for -1.0, which does not exist", [](Plan& p) { step(p).after = {{-1, 0}}; }},
    {"it waits for 0.1 of its own lane", [](Plan& p) { step(p).after = {{0, 1}}; }},
    {"65 waits exceed the limit of 64", [](Plan& p) { step(p).after.resize(65, {1, 0}); }},
    {"rank 1 lane 0 step 1: it waits, over other lanes, for itself",
     [](Plan& p) { p.lanes[1].steps[0].after = {{0, 1}}; }},
};

TEST(PlanCheck, AcceptsASoundPlan) { EXPECT_TRUE(check(sound()).ok()) << check(sound()).message(); }

TEST(PlanCheck, RejectsEveryFault) {
  for (const Fault& fault : kFaults) {
    Plan plan = sound();
    fault.plant(plan);
    const Status status = check(plan);
    ASSERT_FALSE(status.ok()) << fault.message;
    EXPECT_THAT(status.message(), HasSubstr(fault.message));
  }
}

}  // namespace
}  // namespace hocket
