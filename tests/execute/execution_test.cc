// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Every plan on the real executor, cut into tiny windows and slices, every element compared.
#include "execute/execution.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/binding.h"
#include "execute/local_ranks.h"
#include "plan/builders.h"
#include "plan/lanes.h"
#include "plan/lending.h"

namespace hocket::test {
namespace {

constexpr size_t kMaxMessage = 1024;

int32_t value(Rank rank, size_t index) {
  return static_cast<int32_t>((static_cast<size_t>(rank) * 7919 + index * 31) % 1009) - 500;
}

struct Shape {
  const Builder* builder;
  Rank ranks;
  Rank root;
  int32_t lanes;
  size_t count;
  bool in_place;

  std::string text() const {
    return fmt::format("{} by {}: ranks {} root {} lanes {} count {} in place {}", name(builder->collective),
                       builder->name, ranks, root, lanes, count, in_place);
  }
};

// One rank's buffers: what it contributes, and what it must find afterwards.
struct Buffers {
  std::vector<int32_t> send, recv, expected;
};

int32_t sum(Rank first, Rank end, size_t index) {
  int32_t total = 0;
  for (Rank rank = first; rank < end; ++rank) total += value(rank, index);
  return total;
}

Buffers make_buffers(const Shape& shape, Rank rank) {
  const auto n = static_cast<size_t>(shape.ranks);
  const size_t count = shape.count;
  const Collective kind = shape.builder->collective;
  const bool root = rank == shape.root;
  const bool send_blocks =
      kind == Collective::kReduceScatter || kind == Collective::kAllToAll || kind == Collective::kScatter;
  const bool recv_blocks =
      kind == Collective::kAllGather || kind == Collective::kAllToAll || kind == Collective::kGather;
  Buffers buffers;
  buffers.send.resize(kind == Collective::kBarrier ? 0 : count * (send_blocks ? n : 1));
  buffers.recv.assign(kind == Collective::kBarrier ? 0 : count * (recv_blocks ? n : 1), -77777);
  for (size_t i = 0; i < buffers.send.size(); ++i) buffers.send[i] = value(rank, i);
  buffers.expected = buffers.recv;
  const auto fill = [&](auto result) {
    for (size_t i = 0; i < buffers.expected.size(); ++i) buffers.expected[i] = result(i);
  };
  const size_t own = static_cast<size_t>(rank) * count;
  switch (kind) {
    case Collective::kAllReduce:
      fill([&](size_t i) { return sum(0, shape.ranks, i); });
      break;
    case Collective::kReduce:
      if (root) fill([&](size_t i) { return sum(0, shape.ranks, i); });
      break;
    case Collective::kBroadcast:
      fill([&](size_t i) { return value(shape.root, i); });
      break;
    case Collective::kReduceScatter:
      fill([&](size_t i) { return sum(0, shape.ranks, own + i); });
      break;
    case Collective::kAllGather:
      fill([&](size_t i) { return value(static_cast<Rank>(i / count), i % count); });
      break;
    case Collective::kGather:
      if (root) fill([&](size_t i) { return value(static_cast<Rank>(i / count), i % count); });
      break;
    case Collective::kScatter:
      fill([&](size_t i) { return value(shape.root, own + i); });
      break;
    case Collective::kAllToAll:
      fill([&](size_t i) { return value(static_cast<Rank>(i / count), own + i % count); });
      break;
    case Collective::kScan:
      fill([&](size_t i) { return sum(0, rank + 1, i); });
      break;
    case Collective::kExScan:
      if (rank > 0) fill([&](size_t i) { return sum(0, rank, i); });
      break;
    default:
      break;
  }
  return buffers;
}

// Where the two buffers lie when they share memory: the larger one holds the smaller.
void place(const Shape& shape, Rank rank, Buffers& buffers, Request& request) {
  request.send = buffers.send.data();
  request.recv = buffers.recv.data();
  if (!shape.in_place || shape.builder->collective == Collective::kBarrier) return;
  const size_t own = static_cast<size_t>(rank) * shape.count;
  const bool root = rank == shape.root;
  switch (shape.builder->collective) {
    case Collective::kGather:
      if (!root) return;
      [[fallthrough]];
    case Collective::kAllGather:
      std::copy(buffers.send.begin(), buffers.send.end(), buffers.recv.begin() + static_cast<std::ptrdiff_t>(own));
      request.send = buffers.recv.data() + own;
      return;
    case Collective::kScatter:
      if (!root) return;
      [[fallthrough]];
    case Collective::kReduceScatter:
      request.recv = buffers.send.data() + own;
      return;
    default:
      if (shape.builder->collective == Collective::kBroadcast && !root) return;
      if (shape.builder->collective == Collective::kReduce && !root) return;
      buffers.recv = buffers.send;
      if (shape.builder->collective == Collective::kExScan && rank == 0) buffers.expected = buffers.send;
      request.send = buffers.recv.data();
  }
}

// Where the buffers of all ranks begin.
std::vector<std::byte*> beginnings(const std::vector<Request>& requests, Buffer buffer) {
  std::vector<std::byte*> result;
  for (const Request& request : requests) {
    const void* start = buffer == Buffer::kSend ? request.send : request.recv;
    result.push_back(static_cast<std::byte*>(const_cast<void*>(start)));
  }
  return result;
}

void check(const Shape& shape, uint32_t seed) {
  SCOPED_TRACE(shape.text());
  LocalRanks ranks(shape.ranks, kMaxMessage);
  std::vector<Plan> plans;
  std::vector<Buffers> buffers;
  std::vector<Request> requests(static_cast<size_t>(shape.ranks));
  std::vector<Call> calls(static_cast<size_t>(shape.ranks));
  std::vector<std::vector<std::byte>> scratch(static_cast<size_t>(shape.ranks));
  for (Rank rank = 0; rank < shape.ranks; ++rank) {
    BuildOptions options;
    options.rank = rank;
    options.ranks = shape.ranks;
    options.root = shape.root;
    options.in_place = shape.in_place;
    const Plan plan = shape.builder->build(options);
    plans.push_back(over_lanes(plan, std::min(shape.lanes, most_lanes(plan))));
    buffers.push_back(make_buffers(shape, rank));
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    Request& request = requests[i];
    request.facts.collective = shape.builder->collective;
    request.facts.type = DataType::kInt32;
    request.facts.count = shape.builder->collective == Collective::kBarrier ? 0 : shape.count;
    request.facts.root = shape.root;
    place(shape, static_cast<Rank>(i), buffers[i], request);
    Call& call = calls[i];
    call.plan = &plans[i];
    bind_arithmetic(request, shape.ranks, call);
    bind_layouts(request, call);
    call.slice_bytes = 192;
    // Twice a slice per message: trains, and several passes.
    call.window = std::max<size_t>(16, 2 * call.slice_bytes / 4 / static_cast<size_t>(plans[i].message_chunks));
    const bool in_place = is_in_place(request, static_cast<Rank>(i));
    mark_what_stays(plans[i], in_place);
    call.lending = seed % 2 == 0 && may_lend(plans[i], in_place) ? Lending::kAlways : Lending::kWithoutCopies;
    scratch[i].resize(Execution::scratch_bytes(call) + 64);
    call.scratch = scratch[i].data();
  }
  const std::vector<std::byte*> sends = beginnings(requests, Buffer::kSend);
  const std::vector<std::byte*> receives = beginnings(requests, Buffer::kRecv);
  for (Call& call : calls) {
    call.peers_send = {sends, 0};
    call.peers_recv = {receives, 0};
  }
  for (uint32_t round = 0; round < 2; ++round) {
    for (Call& call : calls) ++call.operation;
    if (round == 1 && shape.in_place) break;  // the first round has overwritten what was sent
    ASSERT_TRUE(ranks.run(calls, seed + round, (seed + round) % 2 == 0));
    for (size_t i = 0; i < calls.size(); ++i) {
      if (buffers[i].expected.empty()) continue;
      const auto* got = static_cast<const int32_t*>(requests[i].recv);
      ASSERT_EQ(std::vector<int32_t>(got, got + buffers[i].expected.size()), buffers[i].expected) << "rank " << i;
    }
  }
}

class EveryBuilder : public testing::TestWithParam<const Builder*> {};

TEST_P(EveryBuilder, GivesTheRightResult) {
  uint32_t seed = 1;
  for (const Rank ranks : {1, 2, 3, 4, 5, 7, 8, 9}) {
    for (const int32_t lanes : {1, 3}) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{5}, size_t{1000}}) {
        for (const bool in_place : {false, true}) {
          const Shape shape{GetParam(), ranks, static_cast<Rank>(seed % static_cast<uint32_t>(ranks)),
                            lanes,      count, in_place};
          BuildOptions options;
          options.ranks = ranks;
          options.root = shape.root;
          options.in_place = in_place;
          if (!GetParam()->fits(options)) continue;
          check(shape, seed++);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

std::vector<const Builder*> all_builders() {
  std::vector<const Builder*> all;
  for (const Builder& builder : builders()) all.push_back(&builder);
  return all;
}

std::string test_name(const testing::TestParamInfo<const Builder*>& tested) {
  return fmt::format("{}_{}", name(tested.param->collective), tested.param->name);
}

TEST(Execution, AwaitsWhoHasNotFetchedWhatIsLent) {
  BuildOptions options;
  options.ranks = 2;
  const Plan plan = find_builder(Collective::kBroadcast, "direct")->build(options);
  std::vector<int32_t> values(LocalRanks::kLentFrom);
  Request request;
  request.facts.collective = Collective::kBroadcast;
  request.facts.type = DataType::kInt32;
  request.facts.count = values.size();
  request.send = request.recv = values.data();
  Call call;
  call.plan = &plan;
  call.lending = Lending::kAlways;
  call.window = values.size();
  call.slice_bytes = kMaxMessage;
  bind_arithmetic(request, options.ranks, call);
  bind_layouts(request, call);
  LocalRanks ranks(options.ranks, kMaxMessage);
  EXPECT_FALSE(ranks.run({call}, 1, false)) << "rank 1 has not come";
  EXPECT_EQ(ranks.execution(0).awaited(), std::vector<Rank>{1});
}

INSTANTIATE_TEST_SUITE_P(Plans, EveryBuilder, testing::ValuesIn(all_builders()), test_name);

}  // namespace
}  // namespace hocket::test
