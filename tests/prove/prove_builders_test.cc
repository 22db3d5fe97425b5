// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Every builder is proved for every number of ranks from 1 to 64: all roots of few ranks and some of many, one to three
// lanes, in place and not. What it claims of itself (rank order, depth, rounds, bytes) must be so.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <set>

#include "plan/write.h"
#include "prove/prove.h"

namespace hocket {
namespace {

constexpr Rank kMostRanks = 64;
constexpr Rank kAllRootsUpTo = 9;

bool has_root(Collective collective) {
  return collective == Collective::kBroadcast || collective == Collective::kReduce ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

std::set<Rank> roots(const Builder& builder, Rank ranks) {
  if (!has_root(builder.collective)) return {0};
  std::set<Rank> result;
  if (ranks > kAllRootsUpTo) return {0, 1, ranks / 2, ranks - 1};
  for (Rank root = 0; root < ranks; ++root) result.insert(root);
  return result;
}

std::string title(const Builder& builder, const BuildOptions& options) {
  return testing::PrintToString(name(builder.collective)) + " " + std::string(builder.name) + ": " +
         std::to_string(options.ranks) + " ranks, root " + std::to_string(options.root) + ", " +
         std::to_string(options.lanes) + " lanes, radix " + std::to_string(options.radix) +
         (options.in_place ? ", in place" : "");
}

// Calls use(builder, options) for all that the registry builds for up to `most` ranks.
template <typename Use>
void for_all_plans(Rank most, const Use& use) {
  for (const Builder& builder : builders()) {
    for (Rank ranks = 1; ranks <= most; ++ranks) {
      for (const Rank root : roots(builder, ranks)) {
        for (int32_t lanes = 1; lanes <= 3; ++lanes) {
          for (const bool in_place : {false, true}) {
            const BuildOptions options{
                .rank = 0, .ranks = ranks, .root = root, .lanes = lanes, .radix = 4, .in_place = in_place};
            if (builder.fits(options)) use(builder, options);
          }
        }
      }
    }
  }
}

// The heads say what is needed and no more, and rank order is claimed exactly where it holds.
void expect_honest(const Builder& builder, const BuildOptions& options, const Proof& proof) {
  const Plan plan = builder.build(options);
  const bool is_pair = options.ranks == 2;  // a ring of two passes nothing on
  EXPECT_TRUE(is_pair || proof.depth == plan.depth) << title(builder, options) << " needs depth " << proof.depth;
  EXPECT_EQ(std::max(proof.longest_message, 1), plan.message_chunks) << title(builder, options);
  // With root 0, trees and chains that are built around the root happen to be in rank order.
  const bool by_chance = builder.collective == Collective::kReduce && options.root == 0;
  const bool tells = options.ranks >= 4 && !by_chance;
  EXPECT_TRUE(!tells || proof.in_rank_order == builder.ordered) << title(builder, options);
}

TEST(ProveBuilders, AllAreRightForOneTo64Ranks) {
  int proofs = 0;
  for_all_plans(kMostRanks, [&](const Builder& builder, const BuildOptions& options) {
    const Result<Proof> proof = prove(builder, options);
    ASSERT_TRUE(proof.ok()) << title(builder, options) << ": " << proof.status().message();
    expect_honest(builder, options, *proof);
    ++proofs;
  });
  EXPECT_GT(proofs, 10000);
}

// The same bits in every chunk, on every rank, whatever the root and the lanes.
TEST(ProveBuilders, DirectAndInOrderAssociateInOneWay) {
  for (const auto& [collective, algorithm] : {std::pair{Collective::kAllReduce, "in_order"},
                                              {Collective::kAllReduce, "one_shot"},
                                              {Collective::kAllReduce, "two_shot"},
                                              {Collective::kReduce, "in_order"},
                                              {Collective::kReduce, "direct"},
                                              {Collective::kReduceScatter, "direct"}}) {
    for (const Rank ranks : {2, 7, 64, 70, 131}) {
      const Builder& builder = *find_builder(collective, algorithm);
      BuildOptions options{.ranks = ranks, .root = ranks / 2, .lanes = 3};
      if (!builder.fits(options)) options.lanes = 1;
      const Result<Proof> proof = prove(builder, options);
      ASSERT_TRUE(proof.ok()) << proof.status().message();
      EXPECT_TRUE(proof->same_association) << title(builder, options);
    }
  }
}

TEST(ProveBuilders, EveryRadix) {
  for (const Builder& builder : builders()) {
    if (builder.name != "knomial" && builder.name != "kbruck" && builder.name != "pat") continue;
    for (int32_t radix = 2; radix <= 9; ++radix) {
      for (const Rank ranks : {1, 2, 3, 5, 8, 9, 23, 27, 28, 64}) {
        const BuildOptions options{.ranks = ranks, .root = ranks / 3, .radix = radix};
        const Result<Proof> proof = prove(builder, options);
        ASSERT_TRUE(proof.ok()) << title(builder, options) << ": " << proof.status().message();
        EXPECT_EQ(std::max(proof->longest_message, 1), builder.build(options).message_chunks);
      }
    }
  }
}

Proof proof_of(Collective collective, std::string_view algorithm, Rank ranks) {
  const Result<Proof> proof = prove(*find_builder(collective, algorithm), {.ranks = ranks});
  EXPECT_TRUE(proof.ok()) << proof.status().message();
  return proof.ok() ? *proof : Proof{};
}

TEST(ProveBuilders, RoundsAndBytesAreThoseOfTheBooks) {
  for (Rank ranks = 2; ranks <= kMostRanks; ++ranks) {
    const auto log2 = static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(ranks - 1)));
    const double least = static_cast<double>(ranks - 1) / ranks;
    const Proof circulant = proof_of(Collective::kAllReduce, "circulant", ranks);
    EXPECT_EQ(circulant.rounds, 2 * log2);
    EXPECT_DOUBLE_EQ(circulant.share_sent, 2 * least);
    const Proof ring = proof_of(Collective::kAllReduce, "ring", ranks);
    EXPECT_EQ(ring.rounds, 2 * (ranks - 1));
    EXPECT_DOUBLE_EQ(ring.share_sent, 2 * least);
    const Proof two_shot = proof_of(Collective::kAllReduce, "two_shot", ranks);
    EXPECT_EQ(two_shot.rounds, 2);
    EXPECT_DOUBLE_EQ(two_shot.share_sent, 2 * least);
    const Proof pairwise = proof_of(Collective::kAllReduce, "pairwise", ranks);
    EXPECT_EQ(pairwise.rounds, 2 * (ranks - 1));
    EXPECT_DOUBLE_EQ(pairwise.share_sent, 2 * least);
    const Proof scatter = proof_of(Collective::kReduceScatter, "circulant", ranks);
    EXPECT_EQ(scatter.rounds, log2);
    EXPECT_DOUBLE_EQ(scatter.share_sent, least);
    const Proof gather = proof_of(Collective::kAllGather, "circulant", ranks);
    EXPECT_EQ(gather.rounds, log2);
    EXPECT_DOUBLE_EQ(gather.share_sent, least);
    // A parent's messages to its children do not wait for each other.
    EXPECT_LE(proof_of(Collective::kBroadcast, "binomial", ranks).rounds, log2);
    EXPECT_LE(proof_of(Collective::kReduce, "binomial", ranks).rounds, log2);
    // Once in the gather, and half of it in the tree: who took part with all it holds sent and received it twice.
    EXPECT_LT(proof_of(Collective::kBroadcast, "scatter_all_gather", ranks).share_sent, 1.5);
    // As many blocks as bits: the rounds that Träff's schedule takes, and each rank sends each block's sum once.
    EXPECT_LE(proof_of(Collective::kBroadcast, "circulant", ranks).rounds, 2 * log2 - 1);
    EXPECT_LE(proof_of(Collective::kReduce, "circulant", ranks).rounds, 2 * log2 - 1);
    EXPECT_DOUBLE_EQ(proof_of(Collective::kReduce, "circulant", ranks).share_sent, 1);
    EXPECT_EQ(proof_of(Collective::kAllToAll, "bruck", ranks).rounds, log2);
    EXPECT_EQ(proof_of(Collective::kBarrier, "dissemination", ranks).rounds, log2);
    EXPECT_LE(proof_of(Collective::kScan, "doubling", ranks).rounds, log2);
    EXPECT_EQ(proof_of(Collective::kAllReduce, "one_shot", ranks).rounds, 1);
    EXPECT_LE(proof_of(Collective::kBroadcast, "bine", ranks).rounds, log2);
    EXPECT_LE(proof_of(Collective::kReduce, "bine", ranks).rounds, log2);
    EXPECT_LE(proof_of(Collective::kBroadcast, "double_tree", ranks).rounds, 2 * log2);
    EXPECT_LE(proof_of(Collective::kAllReduce, "dual_root", ranks).rounds, 2 * log2);
    // Each rank sends one half to a parent and one to each of two children at most, up and down.
    EXPECT_LE(proof_of(Collective::kBroadcast, "double_tree", ranks).share_sent, 1);
    EXPECT_LE(proof_of(Collective::kAllReduce, "double_tree", ranks).share_sent, 2);
    const Proof sparbit = proof_of(Collective::kAllGather, "sparbit", ranks);
    EXPECT_EQ(sparbit.rounds, log2);
    EXPECT_DOUBLE_EQ(sparbit.share_sent, least);
    EXPECT_DOUBLE_EQ(proof_of(Collective::kAllGather, "pat", ranks).share_sent, least);
    EXPECT_DOUBLE_EQ(proof_of(Collective::kReduceScatter, "pat", ranks).share_sent, least);
    EXPECT_EQ(proof_of(Collective::kAllGather, "kbruck", ranks).rounds, (log2 + 1) / 2);
    EXPECT_DOUBLE_EQ(proof_of(Collective::kAllGather, "kbruck", ranks).share_sent, least);
    EXPECT_EQ(proof_of(Collective::kAllToAll, "kbruck", ranks).rounds, (log2 + 1) / 2);
    // Where the number of ranks is no power of two, pairs fold before and after.
    const bool is_power = (ranks & (ranks - 1)) == 0;
    EXPECT_LE(proof_of(Collective::kAllReduce, "recursive_doubling", ranks).rounds, is_power ? log2 : log2 + 1);
    for (const char* halving : {"rabenseifner", "swing"}) {
      const Proof proof = proof_of(Collective::kAllReduce, halving, ranks);
      EXPECT_LE(proof.rounds, 2 * log2);
      EXPECT_TRUE(!is_power || proof.share_sent == 2 * least) << halving << " " << ranks;
    }
  }
}

// Swing's exchanges of all data, on any even number of ranks.
std::vector<Plan> naive_swing(Rank ranks) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < ranks; ++rank) {
    Plan plan = plan::begin(Collective::kAllReduce, "naive_swing", {.rank = rank, .ranks = ranks});
    Place own = plan::first(plan::send(0));
    for (int64_t power = -2; std::abs(power) < 2 * ranks; power *= -2) {
      const int64_t distance = (1 - power) / 3;
      const Rank peer = plan::wrapped(rank % 2 == 0 ? rank + distance : rank - distance, ranks);
      plan::add(plan.lanes[0], {plan::to(peer)}, {own});
      plan::add(plan.lanes[0], {plan::recv(0)}, {own, plan::from(peer)});
      own = plan::recv(0);
    }
    plan.lanes[0].steps.back().last = true;
    plans.push_back(std::move(plan));
  }
  return plans;
}

TEST(ProveBuilders, SwingAsItStandsCountsTwiceUnlessThereIsAPowerOfTwo) {
  for (const Rank ranks : {2, 4, 8, 16, 32, 64}) {
    const Result<Proof> proof = prove(naive_swing(ranks));
    EXPECT_TRUE(proof.ok()) << ranks << ": " << proof.status().message();
  }
  for (const Rank ranks : {6, 10, 12, 14, 18, 48}) {
    const Result<Proof> proof = prove(naive_swing(ranks));
    ASSERT_FALSE(proof.ok()) << ranks;
    EXPECT_NE(proof.status().message().find("twice"), std::string::npos) << proof.status().message();
  }
}

TEST(ProveBuilders, TreesAndChainsWorkByRendezvousExchangesDoNot) {
  for (const auto& [collective, algorithm, works] : {std::tuple{Collective::kBroadcast, "binomial", true},
                                                     {Collective::kReduce, "chain", true},
                                                     {Collective::kScatter, "direct", true},
                                                     {Collective::kScan, "doubling", true},
                                                     {Collective::kAllReduce, "chain", true},
                                                     {Collective::kAllReduce, "ring", false},
                                                     {Collective::kAllReduce, "recursive_doubling", false},
                                                     {Collective::kAllToAll, "pairwise", false}}) {
    EXPECT_EQ(proof_of(collective, algorithm, 6).works_rendezvous, works) << algorithm;
  }
}

}  // namespace
}  // namespace hocket
