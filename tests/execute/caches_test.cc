// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// From which size on calls count as too large for the caches.
#include "execute/caches.h"

#include <gtest/gtest.h>

#include <vector>

#include "plan/builders.h"
#include "plan/lending.h"

namespace hocket::test {
namespace {

constexpr size_t kCache = 4096;

// Of rank 1, of two if nothing else is said, in bytes. Memory that is not touched: addresses of `memory` only.
class Caches : public testing::Test {
 protected:
  bool fills(Collective collective, const char* algorithm, const Layout& send, const Layout& recv, Rank root = 0,
             Rank ranks = 2) {
    BuildOptions options;
    options.rank = 1;
    options.ranks = ranks;
    options.root = root;
    options.in_place = send.base == recv.base;
    Plan plan = find_builder(collective, algorithm)->build(options);
    mark_what_stays(plan, options.in_place);
    Call call;
    call.plan = &plan;
    call.cache_bytes = kCache;
    call.send = send;
    call.recv = recv;
    return fills_caches(call);
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(4 * kCache);
  std::byte* const here_ = memory_.data();
  std::byte* const elsewhere_ = here_ + 2 * kCache;
};

TEST_F(Caches, BothBuffersCountTogether) {
  const auto both = [&](size_t bytes) {
    return fills(Collective::kAllToAll, "direct", Layout::blocks(here_, 2, bytes / 2),
                 Layout::blocks(elsewhere_, 2, bytes / 2));
  };
  EXPECT_TRUE(both(kCache / 2));
  EXPECT_FALSE(both(kCache / 2 - 2));
}

TEST_F(Caches, WhatIsGivenButNotReadDoesNotCount) {
  const Layout send = Layout::blocks(here_, 1, kCache), recv = Layout::blocks(elsewhere_, 1, kCache / 2);
  EXPECT_FALSE(fills(Collective::kBroadcast, "direct", send, recv)) << "receives";
  EXPECT_TRUE(fills(Collective::kBroadcast, "direct", send, recv, 1)) << "is the root";
  EXPECT_TRUE(fills(Collective::kBroadcast, "direct", send, Layout::blocks(elsewhere_, 1, kCache)));
}

TEST_F(Caches, PartOfTheOtherBufferCountsOnce) {
  const Layout recv = Layout::blocks(here_, 2, kCache / 2 - 1);
  EXPECT_FALSE(fills(Collective::kAllGather, "ring", Layout::blocks(here_ + kCache / 2 - 1, 1, kCache / 2 - 1), recv));
  EXPECT_TRUE(fills(Collective::kAllGather, "ring", Layout::blocks(elsewhere_, 1, kCache / 2 - 1), recv));
}

TEST_F(Caches, BlocksThatDifferCountAsLongAsTheyAre) {
  const Layout few = Layout::listed(here_, {kCache / 2 - 1, 0}, {}),
               most = Layout::listed(elsewhere_, {0, kCache / 2}, {});
  EXPECT_FALSE(fills(Collective::kAllToAll, "direct", few, most));
  EXPECT_TRUE(fills(Collective::kAllToAll, "direct", most, Layout::listed(here_, {1, kCache / 2 - 1}, {})));
}

// Its lines lie in the caches then.
TEST_F(Caches, WhatIsSentAndOverwrittenStays) {
  const Layout both = Layout::blocks(here_, 2, kCache);
  EXPECT_FALSE(fills(Collective::kAllReduce, "ring", both, both));
  EXPECT_FALSE(fills(Collective::kAllToAll, "pairwise", both, both));
  EXPECT_TRUE(fills(Collective::kAllReduce, "ring", both, Layout::blocks(elsewhere_, 2, kCache)));
}

TEST_F(Caches, WhatIsPassedOnIsNotOverwritten) {
  const Layout both = Layout::blocks(here_, 4, kCache / 4);
  EXPECT_TRUE(fills(Collective::kBroadcast, "scatter_all_gather", both, both, 0, 4));
}

}  // namespace
}  // namespace hocket::test
