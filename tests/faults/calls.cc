// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/faults/calls.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace hocket::test {
namespace {

constexpr Seconds kParentFails{5};
constexpr size_t kTransferred = 3000;

hocketComm_t shrunk = nullptr;  // as take_shrunk() gives it away

int draw(std::mt19937_64& random, int below) { return static_cast<int>(random() % static_cast<uint64_t>(below)); }

// Rank r's element i in a round.
int32_t value_of(int rank, size_t i, uint32_t round) {
  return static_cast<int32_t>((i * 7 + static_cast<size_t>(rank) * 13 + round) % 1000);
}

int32_t sum_of(int ranks, size_t i, uint32_t round) {
  int32_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_of(rank, i, round);
  return sum;
}

// A child fails with its ranks, and the rank that is lost is the parent's, too: it fails by itself, without a call.
hocketResult_t failure_of(const Member& parent) {
  hocketResult_t failure = hocketSuccess;
  const auto until = std::chrono::steady_clock::now() + kParentFails;
  while (failure == hocketSuccess && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    hocketCommGetAsyncError(parent.comm, &failure);
  }
  if (failure == hocketSuccess) std::printf("wrong end: a child failed, and its parent has not\n");
  return failure;
}

// Only when all are through may one leave.
hocketResult_t use(const Member& child, uint32_t round, int color) {
  std::mt19937_64 random(round * 3 + static_cast<uint32_t>(color));
  hocketResult_t result = hocketSuccess;
  for (int i = 0; i < 2 && result == hocketSuccess; ++i) result = collective(child, random, round);
  return result == hocketSuccess ? hocketBarrier(child.comm, nullptr) : result;
}

hocketResult_t child(const Member& parent, std::mt19937_64& random, uint32_t round) {
  const int colors = draw(random, 4);
  const int color = colors == 0 ? 0 : parent.rank % colors;
  // A failed one is shrunk by all alike, to go on.
  hocketResult_t failure = hocketSuccess;
  hocketCommGetAsyncError(parent.comm, &failure);
  if (failure != hocketSuccess) return failure;
  Member member;
  hocketResult_t result = colors == 0
                              ? hocketCommShrink(parent.comm, nullptr, 0, &member.comm, nullptr, HOCKET_SHRINK_DEFAULT)
                              : hocketCommSplit(parent.comm, color, 0, &member.comm, nullptr);
  if (result == hocketSuccess) {
    hocketCommUserRank(member.comm, &member.rank);
    hocketCommCount(member.comm, &member.ranks);
    if (colors == 0 && member.ranks < parent.ranks) return shrunk = member.comm, failure_of(parent);
    result = use(member, round, color);
  }
  hocketCommDestroy(member.comm);
  return result == hocketSuccess ? result : failure_of(parent);
}

hocketResult_t queued(const Member& member, uint32_t round) {
  hocketQueue_t queue = nullptr;
  hocketQueueCreate(&queue);
  constexpr int kCalls = 4;
  std::vector<int32_t> sums[kCalls];
  hocketResult_t result = hocketSuccess;
  for (int i = 0; i < kCalls && result == hocketSuccess; ++i) {
    sums[i].assign(kTransferred, value_of(member.rank, static_cast<size_t>(i), round));
    result = hocketAllReduce(sums[i].data(), sums[i].data(), kTransferred, hocketInt32, hocketSum, member.comm,
                             hocketQueueStream(queue));
  }
  const hocketResult_t end = hocketQueueSynchronize(queue);
  hocketQueueDestroy(queue);
  if (result != hocketSuccess || end != hocketSuccess) return result != hocketSuccess ? result : end;
  for (int i = 0; i < kCalls; ++i) {
    const int32_t wanted = sum_of(member.ranks, static_cast<size_t>(i), round);
    if (std::count(sums[i].begin(), sums[i].end(), wanted) != std::ssize(sums[i]))
      std::printf("wrong result of queued call %d in round %u\n", i, round);
  }
  return hocketSuccess;
}

// Everybody sends to the next rank.
hocketResult_t transfers(const Member& member, uint32_t round) {
  const int next = (member.rank + 1) % member.ranks;
  const int previous = (member.rank + member.ranks - 1) % member.ranks;
  const std::vector<int32_t> send(kTransferred, value_of(member.rank, 0, round));
  std::vector<int32_t> recv(kTransferred, -1);
  hocketGroupStart();
  hocketSend(send.data(), send.size(), hocketInt32, next, member.comm, nullptr);
  hocketRecv(recv.data(), recv.size(), hocketInt32, previous, member.comm, nullptr);
  const hocketResult_t result = hocketGroupEnd();
  const int32_t wanted = value_of(previous, 0, round);
  if (result == hocketSuccess && std::count(recv.begin(), recv.end(), wanted) != std::ssize(recv))
    std::printf("wrong result of the transfer in round %u\n", round);
  return result;
}

}  // namespace

hocketResult_t collective(const Member& member, std::mt19937_64& random, uint32_t round) {
  const auto pick = [&](int below) { return draw(random, below); };
  const size_t counts[] = {1, 100, 4000, 60000};
  const int kind = pick(4);
  const size_t count = counts[pick(4)];
  const int root = pick(member.ranks);
  const auto ranks = static_cast<size_t>(member.ranks);
  std::vector<int32_t> send(count);
  for (size_t i = 0; i < count; ++i) send[i] = value_of(member.rank, i, round);
  std::vector<int32_t> recv(count * ranks, -1);
  std::vector<int32_t> wanted;
  hocketResult_t result = hocketSuccess;
  switch (kind) {
    case 0:
      result = hocketAllReduce(send.data(), recv.data(), count, hocketInt32, hocketSum, member.comm, nullptr);
      for (size_t i = 0; i < count; ++i) wanted.push_back(sum_of(member.ranks, i, round));
      break;
    case 1:
      result = hocketBroadcast(send.data(), recv.data(), count, hocketInt32, root, member.comm, nullptr);
      for (size_t i = 0; i < count; ++i) wanted.push_back(value_of(root, i, round));
      break;
    case 2:
      result = hocketAllGather(send.data(), recv.data(), count, hocketInt32, member.comm, nullptr);
      for (size_t i = 0; i < count * ranks; ++i) {
        wanted.push_back(value_of(static_cast<int>(i / count), i % count, round));
      }
      break;
    default:
      result = hocketReduce(send.data(), recv.data(), count, hocketInt32, hocketSum, root, member.comm, nullptr);
      for (size_t i = 0; i < count && member.rank == root; ++i) wanted.push_back(sum_of(member.ranks, i, round));
  }
  recv.resize(wanted.size());
  const auto [got, expected] = std::mismatch(recv.begin(), recv.end(), wanted.begin());
  if (result == hocketSuccess && got != recv.end()) {
    const auto differ = std::inner_product(recv.begin(), recv.end(), wanted.begin(), size_t{0}, std::plus<>(),
                                           [](int32_t one, int32_t other) { return size_t{one != other}; });
    std::printf("wrong result of call %u, kind %d, root %d of %d: %d instead of %d at %td, %zu of %zu differ\n", round,
                kind, root, member.ranks, *got, *expected, got - recv.begin(), differ, recv.size());
  }
  return result;
}

hocketResult_t any_call(const Member& member, std::mt19937_64& random, uint32_t round) {
  switch (draw(random, 3)) {
    case 0:
      return queued(member, round);
    case 1:
      return transfers(member, round);
    default:
      return collective(member, random, round);
  }
}

hocketResult_t any_call_or_child(const Member& member, std::mt19937_64& random, uint32_t round) {
  return draw(random, 2) == 0 ? child(member, random, round) : any_call(member, random, round);
}

hocketComm_t take_shrunk() { return std::exchange(shrunk, nullptr); }

}  // namespace hocket::test
