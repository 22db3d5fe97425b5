// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Circulant graphs (J. L. Träff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms"): ceil(log2 n) rounds
// and least bytes for every number of ranks n. Distances are n halved, rounding up, down to 1: n = s0, s1, ..., 1. Rank
// r calls the chunk of rank r + i its R[i]. Round k of the reduce-scatter sends R[s(k+1) .. s(k)) to rank r + s(k+1),
// where these chunks are R[0 ..), and adds what comes from r - s(k+1) to R[0 ..). The all-gather is the same backwards.
//
// Operands combine in rotated, not in rank order.
#include "plan/algorithms/circulant.h"

#include <algorithm>

#include "plan/algorithms/algorithms.h"

namespace hocket::plan::circulant {
std::vector<int32_t> distances(Rank ranks) {
  std::vector<int32_t> result{ranks};
  while (result.back() > 1) result.push_back((result.back() + 1) / 2);
  return result;
}

Place in_buffer_order(const Slab& slab, int32_t position, int32_t block) {
  Place place = slab.at(position, block);
  std::ranges::reverse(place.regions);
  return place;
}

namespace {

// Leaves R[0] complete in `destinations`, R[1 ..) partly in `partials`.
void reduce_to_owner(Lane& lane, const BuildOptions& options, const Slab& mine, const Slab& partials,
                     const Places& destinations) {
  const std::vector<int32_t> distance = distances(options.ranks);
  const Rank rank = options.rank;
  const size_t rounds = distance.size() - 1;
  for (size_t round = 0; round < rounds; ++round) {
    const int32_t skip = distance[round + 1];
    const int32_t count = distance[round] - skip;
    const Slab& held = round == 0 ? mine : partials;
    Place sent = in_buffer_order(held, rank + skip, count);
    // The middle one of an odd number of chunks met nothing in round 0, and is the last that round 1 sends.
    if (round == 1 && options.ranks % 2 == 1) {
      const Place untouched = first(mine.at(rank + skip + count - 1));
      if (count == 1) sent = untouched;
      if (count > 1) add(lane, {partials.at(rank + skip + count - 1)}, {untouched});
    }
    Place kept = in_buffer_order(held, rank, count);
    sent.first = sent.first || round == 0;
    kept.first = round == 0;
    add(lane, {to(shifted(options, skip))}, {sent});
    const bool complete = round + 1 == rounds;
    add(lane, complete ? destinations : Places{in_buffer_order(partials, rank, count)},
        {from(shifted(options, -skip)), kept})
        .last = complete;
  }
}

}  // namespace

void gather_results(Lane& lane, const BuildOptions& options, const Slab& results, int32_t position) {
  const std::vector<int32_t> distance = distances(options.ranks);
  for (size_t round = distance.size() - 1; round-- > 0;) {
    const int32_t skip = distance[round + 1];
    const int32_t count = distance[round] - skip;
    if (skip > 1) add(lane, {to(shifted(options, -skip))}, {in_buffer_order(results, position, count)});
    add(lane, {in_buffer_order(results, position + skip, count)}, {from(shifted(options, skip))});
  }
}

Plan all_reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "circulant", options);
  Plan plan = begin(Collective::kAllReduce, "circulant", options, options.lanes, options.lanes * options.ranks);
  plan.message_chunks = options.ranks / 2;
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    const Slab mine{Buffer::kSend, part * options.ranks, options.ranks};
    const Slab results{Buffer::kRecv, part * options.ranks, options.ranks};
    const Place own = results.at(options.rank);
    const Place before = to(shifted(options, -1));
    // Two ranks have but one peer: sending it the result while its last message lies in the pipe would need room for
    // two.
    const bool apart = options.ranks == 2;
    reduce_to_owner(lane, options, mine, results, apart ? Places{own} : Places{own, before});
    if (apart) add(lane, {before}, {own});
    gather_results(lane, options, results, options.rank);
  }
  return plan;
}

Plan reduce_scatter(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kReduceScatter, "circulant", options);
  Plan plan = begin(Collective::kReduceScatter, "circulant", options);
  plan.send_chunks = options.ranks;
  plan.scratch_chunks = options.ranks > 2 ? options.ranks : 0;
  plan.message_chunks = options.ranks / 2;
  reduce_to_owner(plan.lanes[0], options, {Buffer::kSend, 0, options.ranks}, {Buffer::kScratch, 0, options.ranks},
                  {recv(0)});
  return plan;
}

Plan all_gather(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllGather, "circulant", options);
  Plan plan = begin(Collective::kAllGather, "circulant", options);
  plan.recv_chunks = options.ranks;
  plan.message_chunks = options.ranks / 2;
  add(plan.lanes[0], {recv(options.rank), to(shifted(options, -1))}, {send(0)});
  gather_results(plan.lanes[0], options, {Buffer::kRecv, 0, options.ranks}, options.rank);
  return plan;
}

}  // namespace hocket::plan::circulant
