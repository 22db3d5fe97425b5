// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sums of sparse vectors against sums of the same vectors with their zeros, exactly, since the values are small whole
// numbers; and never more bytes than of vectors that are not sparse.
#include "codec/programs/sparse_sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "kernels/random.h"
#include "tests/codec/local_collectives.h"

namespace hocket {
namespace {

// Each rank has an element with a probability of `density`; what it is tells the rank.
std::vector<SparseVector> vectors(int ranks, uint64_t count, double density) {
  std::vector<SparseVector> all(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    SparseVector& vector = all[static_cast<size_t>(rank)];
    vector.count = count;
    const DrawKey key(static_cast<uint64_t>(rank) + 1);
    for (uint64_t i = 0; i < count; ++i) {
      if (static_cast<double>(random_fraction(key, static_cast<uint32_t>(i))) >= density) continue;
      vector.places.push_back(i);
      vector.bits.push_back(std::bit_cast<uint32_t>(static_cast<float>(rank % 7 + 1)));
    }
  }
  return all;
}

std::vector<float> dense_sum(const std::vector<SparseVector>& vectors) {
  std::vector<float> sum(vectors[0].count);
  for (const SparseVector& vector : vectors) {
    for (size_t i = 0; i < vector.places.size(); ++i) sum[vector.places[i]] += std::bit_cast<float>(vector.bits[i]);
  }
  return sum;
}

constexpr double kHead = 5;  // bytes of any message

// What every rank ends with, checked to be the dense sum; bytes sent by all.
uint64_t check_sum_of(const std::vector<SparseVector>& vectors) {
  const std::vector<float> wanted = dense_sum(vectors);
  LocalTeam team(static_cast<int>(vectors.size()));
  team.run([&](Collectives& collectives) {
    std::vector<float> sum(wanted.size(), -1.0f);
    const SparseVector& mine = vectors[static_cast<size_t>(collectives.rank())];
    const Status status = sum_sparse(collectives, mine, [&](uint64_t first, Values chunk) {
      if (chunk.count > 0) std::memcpy(sum.data() + first, chunk.data, chunk.count * sizeof(float));
    });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(wanted, sum) << "rank " << collectives.rank();
  });
  return team.sent_bytes();
}

TEST(SparseSum, IsTheDenseSumAndNeverSendsMore) {
  for (int ranks : {1, 2, 3, 8, 64}) {
    for (double density : {0.0, 0.001, 0.01, 0.1, 0.5, 1.0}) {
      for (uint64_t count : {1u, 60u, 400u, 3000u, 40007u}) {
        const uint64_t sent = check_sum_of(vectors(ranks, count, density));
        const double pairs = ranks * (ranks - 1.0);
        const double heads = count < 40007 ? 2 * pairs * kHead : 0;  // of long vectors within the hundredth
        const double dense = 2 * pairs / ranks * static_cast<double>(count * sizeof(float));
        EXPECT_LE(static_cast<double>(sent), 1.01 * dense + heads)
            << ranks << " ranks, " << count << " elements, density " << density;
      }
    }
  }
}

TEST(SparseSum, SendsLittleOfLittle) {
  constexpr uint64_t kCount = 400000;
  const uint64_t sent = check_sum_of(vectors(4, kCount, 0.01));
  // Each element goes to its owner in 6 bytes, and the sum of up to four times as many to three others.
  EXPECT_LT(static_cast<double>(sent), (3 * 6 * 0.01 + 3 * 6 * 0.04) * kCount * 1.05);
}

TEST(SparseSum, OfAnyShape) {
  for (uint64_t count : {0u, 1u, 2u, 7u, 100u}) {
    for (int ranks : {1, 3, 8}) check_sum_of(vectors(ranks, count, 0.5));
  }
  std::vector<SparseVector> disjoint = vectors(3, 30000, 0);
  for (uint64_t i = 0; i < 30000; ++i) {
    disjoint[i % 3].places.push_back(i);
    disjoint[i % 3].bits.push_back(std::bit_cast<uint32_t>(2.0f));
  }
  check_sum_of(disjoint);
  disjoint[1] = SparseVector{.count = 30000};
  check_sum_of(disjoint);
}

TEST(SparseGather, BringsAllVectorsToAll) {
  for (double density : {0.0, 0.01, 0.9}) {
    const std::vector<SparseVector> sent = vectors(5, 10001, density);
    LocalTeam team(5);
    team.run([&](Collectives& collectives) {
      std::vector<SparseVector> all;
      const Status status = gather_sparse(collectives, sent[static_cast<size_t>(collectives.rank())], all);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(sent.size(), all.size());
      for (size_t rank = 0; rank < all.size(); ++rank) {
        EXPECT_EQ(sent[rank].places, all[rank].places);
        EXPECT_EQ(sent[rank].bits, all[rank].bits);
      }
    });
  }
}

TEST(SparseSum, OfHalves) {
  SparseVector vector{.type = DataType::kBfloat16, .count = 5000, .places = {3, 4999}, .bits = {0x3f80, 0x4000}};
  LocalTeam team(2);
  team.run([&](Collectives& collectives) {
    SparseVector sum{.type = DataType::kBfloat16, .count = 5000};
    const Status status = sum_sparse(collectives, vector, [&](uint64_t first, Values chunk) {
      append_nonzeros(first, {chunk.type, chunk.data, chunk.count}, sum);
    });
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(vector.places, sum.places);
    EXPECT_EQ((std::vector<uint32_t>{0x4000, 0x4080}), sum.bits);
  });
}

}  // namespace
}  // namespace hocket
