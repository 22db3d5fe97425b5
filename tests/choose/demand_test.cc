// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the model says of algorithms, against the verifier and the simulator.
#include "choose/demand.h"

#include <gtest/gtest.h>

#include <set>

#include "choose/tuning.h"
#include "execute/fast_path.h"
#include "plan/coded.h"
#include "plan/short_calls.h"
#include "prove/prove.h"
#include "tests/simulate/networks.h"

namespace hocket {
namespace {

using simulate::flat;

template <typename Use>
void for_known(Rank most, const Use& use) {
  for (const Builder& builder : builders()) {
    for (Rank ranks = 2; ranks <= most; ++ranks) {
      BuildOptions options;
      options.ranks = ranks;
      if (builder.fits(options) && rounds(builder.collective, builder.name, ranks).has_value()) use(builder, options);
    }
  }
}

TEST(Demand, RoundsAreTheVerifiers) {
  for_known(40, [](const Builder& builder, const BuildOptions& options) {
    EXPECT_EQ(*rounds(builder.collective, builder.name, options.ranks), prove(builder, options)->rounds)
        << name(builder.collective) << " " << builder.name << " of " << options.ranks;
  });
}

// The busiest rank is among those that are looked at, so its share is what the verifier finds.
TEST(Demand, SharesAreTheVerifiers) {
  for_known(40, [](const Builder& builder, const BuildOptions& options) {
    const Demand demand = *hocket::demand(builder, options, flat(1, 1));
    const auto share = static_cast<double>(demand.busiest.levels[0].chunks_sent) / demand.chunks;
    EXPECT_NEAR(share, prove(builder, options)->share_sent, 0.02)
        << name(builder.collective) << " " << builder.name << " of " << options.ranks;
  });
}

// A sum that is kept and sent on, as a ring's last one, is no two sums.
TEST(Demand, WhatGoesToSeveralIsCombinedOnce) {
  for (Rank ranks = 2; ranks <= 9; ++ranks) {
    BuildOptions options;
    options.ranks = ranks;
    const Demand ring = *demand(*find_builder(Collective::kAllReduce, "ring"), options, flat(1, 1));
    EXPECT_EQ(ring.busiest.chunks_combined * ranks, ring.chunks * (ranks - 1)) << ranks;
  }
}

// Nothing is sent.
class UnusedPipes final : public Pipes {
 public:
  SendEnd& to(Rank /*peer*/, int /*lane*/) override { return sender_; }
  ReceiveEnd& from(Rank /*peer*/, int /*lane*/) override { return receiver_; }

 private:
  SendEnd sender_;
  ReceiveEnd receiver_;
};

// Whether a call whose chunks are so long is bound to the fast path.
bool binds(const Plan& plan, size_t chunk_bytes) {
  Call call;
  call.plan = &plan;
  call.send = Layout::blocks(nullptr, plan.send_chunks, chunk_bytes);
  call.recv = Layout::blocks(nullptr, plan.recv_chunks, chunk_bytes);
  call.window = call.slice_bytes = size_t{1} << 20;
  UnusedPipes pipes;
  return FastPath(call, pipes).bound();
}

TEST(Demand, WhatTakesTheFastPathIsKnown) {
  int bound = 0;
  for_known(9, [&](const Builder& builder, BuildOptions options) {
    const Demand demand = *hocket::demand(builder, options, flat(1, 1));
    bool all = true;
    for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
      const Plan plan = build(builder, options);
      all = all && binds(plan, kLongestBound);
      EXPECT_TRUE(builder.collective == Collective::kBarrier || !binds(plan, kLongestBound + 1));
    }
    EXPECT_EQ(demand.may_be_bound, all) << name(builder.collective) << " " << builder.name << " of " << options.ranks;
    bound += all ? 1 : 0;
  });
  EXPECT_GT(bound, 100) << "most short calls";
}

// Only collectives are bound: a message alone, whose plan could be, pays for what an execution does.
TEST(Demand, AMessageAloneTakesNoFastPath) {
  BuildOptions options;
  options.ranks = 2;
  const Plan plan = build(*find_builder(Collective::kBroadcast, "binomial"), options);
  ASSERT_TRUE(binds(plan, kLongestBound));
  EXPECT_FALSE(transfer_demand(plan, flat(1, 1)).may_be_bound);
}

// Told without a plan, since such plans are long.
TEST(Demand, WhoSendsToAllIsKnown) {
  for_known(40, [](const Builder& builder, const BuildOptions& options) {
    if (is_rooted(builder.collective) || options.ranks < 20) return;  // few ranks are all of somebody's peers
    const Demand demand = *hocket::demand(builder, options, flat(1, 1));
    EXPECT_EQ(demand.peers == options.ranks - 1, sends_to_all(builder.collective, builder.name))
        << name(builder.collective) << " " << builder.name << " of " << options.ranks;
  });
}

int64_t pairs_that_talk(const Builder& builder, BuildOptions options) {
  int64_t count = 0;
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
    std::set<Rank> heard;
    for (const Lane& lane : builder.build(options).lanes) {
      for (const Step& step : lane.steps) {
        for (const Place& source : step.sources) {
          if (source.kind == Place::Kind::kMessage) heard.insert(source.peer);
        }
      }
    }
    count += static_cast<int64_t>(heard.size());
  }
  return count;
}

// Up a tree and down again: nobody sends in more than half the rounds. Around a ring, everybody sends in all.
TEST(Demand, WhoWaitsForATreesOtherHalfIsKnown) {
  for (const auto& [algorithm, of] :
       {std::pair{"binomial", 2}, {"knomial", 2}, {"bine", 2}, {"chain", 2}, {"ring", 1}}) {
    BuildOptions options;
    options.ranks = 16;
    const Demand demand = *hocket::demand(*find_builder(Collective::kAllReduce, algorithm), options, flat(1, 1));
    EXPECT_EQ(demand.rounds_of_rank * of, demand.rounds) << algorithm;
  }
}

TEST(Demand, WhatGoesAlongRingsAndTreesIsKnown) {
  for_known(40, [](const Builder& builder, const BuildOptions& options) {
    if (options.ranks < 9 || sends_to_all(builder.collective, builder.name)) return;  // few ranks make anything a tree
    EXPECT_EQ(pairs_that_talk(builder, options) < 2 * options.ranks, goes_in_line(builder.collective, builder.name))
        << name(builder.collective) << " " << builder.name << " of " << options.ranks;
  });
}

BuildOptions over(const Hierarchy& hierarchy, Rank ranks) {
  BuildOptions options;
  options.ranks = ranks;
  options.hierarchy = &hierarchy;
  return options;
}

// Hosts of equal and of unequal sizes, in order and dealt out.
TEST(Demand, RoundsOverHostsAreTheVerifiers) {
  for (const std::vector<std::vector<Rank>>& hosts : {std::vector<std::vector<Rank>>{{0, 1}, {2, 3}},
                                                      {{0, 1, 2}, {3}},
                                                      {{0, 2, 4}, {1, 3, 5}},
                                                      {{2, 0, 1}, {3, 5, 4}},
                                                      {{1, 0}, {2, 3}, {5, 4}},
                                                      {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}},
                                                      {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11}, {12}}}) {
    size_t ranks = 0;
    for (const auto& host : hosts) ranks += host.size();
    const Hierarchy hierarchy = *make_hierarchy({hosts}, static_cast<Rank>(ranks));
    BuildOptions options = over(hierarchy, static_cast<Rank>(ranks));
    options.coded = true;
    for (const Builder& builder : builders()) {
      if (builder.name != "hierarchical" || !builder.fits(options)) continue;
      EXPECT_EQ(demand(builder, options, flat(1, 1))->rounds, prove(builder, options)->rounds)
          << name(builder.collective) << " over " << testing::PrintToString(hosts);
    }
  }
}

// Of two hosts of three ranks, dealt out, a host sends its part of the data to the other and gets the other's.
TEST(Demand, TrafficIsCountedByWhereRanksSit) {
  const Placement placement{.ranks = 6, .per_host = 3, .memory = true, .hosts = {{0, 2, 4}, {1, 3, 5}}};
  const NetworkModel model = network_of(built_in_tuning(), placement);
  const Hierarchy hierarchy = *hierarchy_of(placement);
  const Demand counted = *demand(*find_builder(Collective::kAllReduce, "hierarchical"), over(hierarchy, 6), model);
  EXPECT_EQ(counted.host_chunks, counted.chunks);
  NetworkModel in_order = model;
  in_order.seats.clear();
  EXPECT_GT(demand(*find_builder(Collective::kAllReduce, "hierarchical"), over(hierarchy, 6), in_order)->host_chunks,
            counted.chunks);
}

// Seats whose hosts order their NICs otherwise: what goes between hosts keeps to its rail, and all plans are proved.
// To whom each goes that a plan sends.
template <typename Visit>
void for_each_message(const Plan& plan, Visit visit) {
  for (const Lane& lane : plan.lanes) {
    for (const Step& step : lane.steps) {
      for (const Place& place : step.destinations) {
        if (is_message(place)) visit(place.peer);
      }
    }
  }
}

TEST(Demand, GroupsAcrossHostsGoByRails) {
  const Placement placement{.ranks = 8,
                            .per_host = 4,
                            .memory = true,
                            .hosts = {{0, 1, 2, 3}, {4, 5, 6, 7}},
                            .rails = {0, 1, 2, 3, 2, 0, 3, 1}};
  const Hierarchy hierarchy = *hierarchy_of(placement);
  EXPECT_EQ(hierarchy.levels[0], (std::vector<Hierarchy::Group>{{0, 1, 2, 3}, {5, 7, 4, 6}}));
  BuildOptions options = over(hierarchy, 8);
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllToAll}) {
    const Builder& builder = *find_builder(collective, "hierarchical");
    EXPECT_TRUE(prove(builder, options).ok());
    int across = 0;
    for (options.rank = 0; options.rank < 8; ++options.rank) {
      for_each_message(builder.build(options), [&](Rank peer) {
        if (peer / 4 == options.rank / 4) return;
        EXPECT_EQ(placement.rails[static_cast<size_t>(peer)], placement.rails[static_cast<size_t>(options.rank)]);
        ++across;
      });
    }
    EXPECT_GT(across, 0);
  }
}

// The host of the second root gets both halves' sums and sends both results, which no host in the middle does.
TEST(Demand, TheBusiestHostIsFound) {
  const Placement placement{.ranks = 8, .per_host = 2, .memory = true};
  const NetworkModel model = network_of(built_in_tuning(), placement);
  BuildOptions options;
  options.ranks = placement.ranks;
  const Demand counted = *demand(*find_builder(Collective::kAllReduce, "dual_root"), options, model);
  EXPECT_EQ(counted.host_chunks, 2 * counted.chunks);
}

}  // namespace
}  // namespace hocket
