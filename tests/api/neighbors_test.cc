// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Neighbour exchange: on a ring, on a graph in which ranks have neighbours of their own, and what is wrong with it.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

// What `from` sends to `to`: so many numbers that tell both.
std::vector<int32_t> message(int from, int to) {
  std::vector<int32_t> values(static_cast<size_t>(1 + (from + to) % 3));
  std::iota(values.begin(), values.end(), 100 * from + 10 * to);
  return values;
}

struct Exchange {
  std::vector<int> neighbors;
  std::vector<int32_t> send, recv, expected;
  std::vector<size_t> counts;

  Exchange(const Member& member, std::vector<int> with) : neighbors(std::move(with)) {
    for (const int neighbor : neighbors) {
      const std::vector<int32_t> out = message(member.rank, neighbor);
      const std::vector<int32_t> in = message(neighbor, member.rank);
      send.insert(send.end(), out.begin(), out.end());
      expected.insert(expected.end(), in.begin(), in.end());
      counts.push_back(out.size());
    }
    recv.resize(expected.size());
  }
  hocketResult_t run(hocketComm_t comm) {
    return hocketNeighborAllToAllV(send.data(), counts.data(), nullptr, recv.data(), counts.data(), nullptr,
                                   static_cast<int>(neighbors.size()), neighbors.data(), hocketInt32, comm, nullptr);
  }
};

TEST(Neighbors, OnARing) {
  run_threads(5, [](Member& member) {
    Exchange ring(member, {(member.rank + 1) % member.ranks, (member.rank + member.ranks - 1) % member.ranks});
    ASSERT_EQ(ring.run(member.comm), hocketSuccess) << hocketGetLastError(member.comm);
    EXPECT_EQ(ring.recv, ring.expected);
  });
}

TEST(Neighbors, OnAStarWithSelfAndSomebodyWithout) {
  run_threads(4, [](Member& member) {
    const std::vector<std::vector<int>> graph{{1, 0, 2}, {0}, {0}, {}};
    Exchange star(member, graph[static_cast<size_t>(member.rank)]);
    ASSERT_EQ(star.run(member.comm), hocketSuccess) << hocketGetLastError(member.comm);
    EXPECT_EQ(star.recv, star.expected);
  });
}

TEST(Neighbors, WhereTheDisplacementsSay) {
  run_threads(2, [](Member& member) {
    const int peer = 1 - member.rank;
    const std::vector<int32_t> send{7, 8 + member.rank, 9};
    std::vector<int32_t> recv(3, -1);
    const size_t one = 1;
    const size_t from = 1;
    const size_t to = 2;
    ASSERT_EQ(hocketNeighborAllToAllV(send.data(), &one, &from, recv.data(), &one, &to, 1, &peer, hocketInt32,
                                      member.comm, nullptr),
              hocketSuccess);
    EXPECT_EQ(recv, (std::vector<int32_t>{-1, -1, 8 + peer}));
  });
}

TEST(Neighbors, BadArguments) {
  run_threads(2, [](Member& member) {
    int32_t value = 0;
    int32_t other = 0;
    const size_t one = 1;
    const int peer = 1 - member.rank;
    const int nobody = 5;
    const auto refused = [&](int count, const size_t* counts, const int* neighbors, hocketDataType_t type,
                             const std::string& why) {
      expect_error(hocketNeighborAllToAllV(&value, counts, nullptr, &other, &one, nullptr, count, neighbors, type,
                                           member.comm, nullptr),
                   hocketInvalidArgument, nullptr, {why});
    };
    refused(-1, &one, &peer, hocketInt32, "nNeighbors: -1");
    refused(1, nullptr, &peer, hocketInt32, "sendcounts is NULL");
    refused(1, &one, nullptr, hocketInt32, "neighbors is NULL");
    refused(1, &one, &peer, hocketNumTypes, "datatype");
    refused(1, &one, &nobody, hocketInt32, "peer: 5 is not among 2 ranks");
    std::array<int32_t, 4> values{};
    const std::array<int, 2> both = {member.rank, peer};
    const std::array<size_t, 2> ones = {1, 1}, same_place = {1, 1}, far = {0, SIZE_MAX}, long_ones = {1, SIZE_MAX / 8};
    const auto misplaced = [&](const size_t* sent, const size_t* sdispls, const int32_t* from, const size_t* rdispls,
                               const std::string& why) {
      expect_error(hocketNeighborAllToAllV(from, sent, sdispls, values.data(), ones.data(), rdispls, 2, both.data(),
                                           hocketInt32, member.comm, nullptr),
                   hocketInvalidArgument, nullptr, {why});
    };
    const std::array<int32_t, 2> apart{};
    misplaced(ones.data(), nullptr, apart.data(), far.data(), "recvcounts[1]: 1 elements at 18446744073709551615");
    misplaced(ones.data(), far.data(), apart.data(), nullptr, "sendcounts[1]: 1 elements at 18446744073709551615");
    misplaced(long_ones.data(), nullptr, apart.data(), nullptr, "sendcounts[1]: 2305843009213693951 elements");
    misplaced(ones.data(), nullptr, apart.data(), same_place.data(), "the parts of neighbors 0 and 1 overlap");
    misplaced(ones.data(), nullptr, values.data() + 1, nullptr, "sendbuff and recvbuff overlap");
    ASSERT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess) << "the group has ended";
  });
}

}  // namespace
}  // namespace hocket::test
