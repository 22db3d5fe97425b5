// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Large numbers of ranks: plans of O(ranks) steps are proved for samples up to 512 ranks, logarithmic ones up to 4,096.
#include <gtest/gtest.h>

#include <algorithm>

#include "prove/prove.h"

namespace hocket {
namespace {

std::string ranks_of(const testing::TestParamInfo<Rank>& info) { return std::to_string(info.param); }

void prove_all(Rank ranks, bool only_logarithmic) {
  int proofs = 0;
  for (const Builder& builder : builders()) {
    if (only_logarithmic && !builder.logarithmic) continue;
    for (const Rank root : {0, ranks / 3}) {
      const bool in_place = root != 0;  // each at least once
      const BuildOptions options{.ranks = ranks, .root = root, .in_place = in_place};
      if (!builder.fits(options)) continue;
      const Result<Proof> proof = prove(builder, options);
      ASSERT_TRUE(proof.ok()) << name(builder.collective) << " " << builder.name << " root " << root << ": "
                              << proof.status().message();
      const Plan plan = builder.build(options);
      EXPECT_EQ(proof->depth, plan.depth) << builder.name;
      EXPECT_EQ(std::max(proof->longest_message, 1), plan.message_chunks) << builder.name;
      ++proofs;
    }
  }
  EXPECT_GE(proofs, 38);
}

class Linear : public testing::TestWithParam<Rank> {};
class Logarithmic : public testing::TestWithParam<Rank> {};

TEST_P(Linear, EveryBuilderIsRight) { prove_all(GetParam(), false); }
TEST_P(Logarithmic, EveryBuilderIsRight) { prove_all(GetParam(), true); }

INSTANTIATE_TEST_SUITE_P(Ranks, Linear, testing::Values(65, 96, 100, 127, 128, 129, 192, 251, 256, 300, 384, 511, 512),
                         ranks_of);
INSTANTIATE_TEST_SUITE_P(Ranks, Logarithmic, testing::Values(513, 768, 1000, 1024, 1025, 2047, 2048, 3000, 4095, 4096),
                         ranks_of);

}  // namespace
}  // namespace hocket
