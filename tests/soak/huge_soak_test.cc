// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Buffers and counts beyond 2^31 at two ranks, for every collective that moves bytes.
#include <gtest/gtest.h>

#include "tests/api/huge.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

constexpr size_t kCount = (size_t{1} << 31) + 12345;
constexpr size_t kHalf = kCount / 2 + 1;  // both halves together are beyond it

void expect_success(hocketResult_t result, const Member& member) {
  ASSERT_EQ(result, hocketSuccess) << hocketGetLastError(member.comm);
}

TEST(HugeSoak, Broadcast) {
  run_threads(2, [](Member& member) {
    const Pages pages(kCount);
    if (member.rank == 1) fill_huge(pages.data(), kCount, 1);
    expect_success(hocketBcast(pages.data(), kCount, hocketInt8, 1, member.comm, nullptr), member);
    expect_huge(pages.data(), kCount, 1);
  });
}

TEST(HugeSoak, Reduce) {
  run_threads(2, [](Member& member) {
    const Pages pages(kCount);
    fill_huge(pages.data(), kCount, member.rank);
    expect_success(hocketReduce(pages.data(), pages.data(), kCount, hocketInt8, hocketMax, 0, member.comm, nullptr),
                   member);
    expect_huge(pages.data(), kCount, 1);  // on the root the larger one, on the other rank its own
  });
}

TEST(HugeSoak, Scan) {
  run_threads(2, [](Member& member) {
    const Pages pages(kCount);
    fill_huge(pages.data(), kCount, member.rank);
    expect_success(hocketScan(pages.data(), pages.data(), kCount, hocketInt8, hocketMax, member.comm, nullptr), member);
    expect_huge(pages.data(), kCount, member.rank);
  });
}

TEST(HugeSoak, Transfer) {
  run_threads(2, [](Member& member) {
    const Pages pages(kCount);
    if (member.rank == 0) {
      fill_huge(pages.data(), kCount, 0);
      expect_success(hocketSend(pages.data(), kCount, hocketInt8, 1, member.comm, nullptr), member);
    } else {
      expect_success(hocketRecv(pages.data(), kCount, hocketInt8, 0, member.comm, nullptr), member);
      expect_huge(pages.data(), kCount, 0);
    }
  });
}

TEST(HugeSoak, AllGather) {
  run_threads(2, [](Member& member) {
    const Pages pages(2 * kHalf);
    int8_t* const own = pages.data() + static_cast<size_t>(member.rank) * kHalf;
    fill_huge(own, kHalf, member.rank);
    expect_success(hocketAllGather(own, pages.data(), kHalf, hocketInt8, member.comm, nullptr), member);
    expect_huge(pages.data(), kHalf, 0);
    expect_huge(pages.data() + kHalf, kHalf, 1);
  });
}

TEST(HugeSoak, ReduceScatter) {
  run_threads(2, [](Member& member) {
    const Pages pages(2 * kHalf);
    const Pages result(kHalf);
    fill_huge(pages.data(), 2 * kHalf, member.rank);
    expect_success(hocketReduceScatter(pages.data(), result.data(), kHalf, hocketInt8, hocketMax, member.comm, nullptr),
                   member);
    expect_huge(result.data(), kHalf, 1, static_cast<size_t>(member.rank) * kHalf);
  });
}

TEST(HugeSoak, AllToAll) {
  run_threads(2, [](Member& member) {
    const Pages sent(2 * kHalf);
    const Pages received(2 * kHalf);
    fill_huge(sent.data(), 2 * kHalf, member.rank);
    expect_success(hocketAllToAll(sent.data(), received.data(), kHalf, hocketInt8, member.comm, nullptr), member);
    const size_t phase = static_cast<size_t>(member.rank) * kHalf;
    expect_huge(received.data(), kHalf, 0, phase);
    expect_huge(received.data() + kHalf, kHalf, 1, phase);
  });
}

TEST(HugeSoak, GatherAndScatterWithCountsOfEveryRank) {
  run_threads(2, [](Member& member) {
    const Pages all(member.rank == 0 ? kCount + 77 : 1);
    const Pages own(kCount);
    const size_t counts[] = {77, kCount};
    const size_t count = counts[member.rank];
    fill_huge(own.data(), count, member.rank);
    expect_success(hocketGatherV(own.data(), count, all.data(), counts, nullptr, hocketInt8, 0, member.comm, nullptr),
                   member);
    if (member.rank == 0) {
      expect_huge(all.data(), 77, 0);
      expect_huge(all.data() + 77, kCount, 1);
    }
    fill_huge(own.data(), count, 1 - member.rank);
    expect_success(hocketScatterV(all.data(), counts, nullptr, own.data(), count, hocketInt8, 0, member.comm, nullptr),
                   member);
    expect_huge(own.data(), count, member.rank);
  });
}

}  // namespace
}  // namespace hocket::test
