// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Recursive doubling: in round k, ranks whose numbers differ in bit k exchange all they have. Groups grow from
// neighbours, so that operands stay in rank order. Fewest rounds, all bytes in each.
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/fold.h"
#include "plan/write.h"

namespace hocket::plan::recursive_doubling {
namespace {

void reduce_all(Lane& lane, const BuildOptions& options, int32_t chunk) {
  const Fold fold(options);
  if (!fold.is_member()) {
    add(lane, {to(fold.partner())}, {first(send(chunk))});
    add(lane, {recv(chunk)}, {from(fold.partner())});
    return;
  }
  const auto peer = [&](int32_t bit) { return fold.rank_of(fold.member() ^ bit); };
  Place own = first(send(chunk));
  if (fold.paired()) {
    add(lane, {recv(chunk), to(peer(1))}, {own, from(fold.partner())});
    own = recv(chunk);
  } else {
    add(lane, {to(peer(1))}, {own});
  }
  for (int32_t bit = 1; bit < fold.members(); bit *= 2) {
    const bool we_are_earlier = (fold.member() & bit) == 0;
    Places sources = we_are_earlier ? Places{own, from(peer(bit))} : Places{from(peer(bit)), own};
    Places destinations{recv(chunk)};
    const bool complete = 2 * bit == fold.members();
    if (!complete) destinations.push_back(to(peer(2 * bit)));
    if (complete && fold.paired()) destinations.push_back(to(fold.partner()));
    add(lane, std::move(destinations), std::move(sources)).last = complete;
    own = recv(chunk);
  }
}

}  // namespace

Plan all_reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "recursive_doubling", options);
  Plan plan = begin(Collective::kAllReduce, "recursive_doubling", options, options.lanes, options.lanes);
  for (int32_t part = 0; part < options.lanes; ++part) reduce_all(plan.lanes[static_cast<size_t>(part)], options, part);
  return plan;
}

bool fits_all_gather(const BuildOptions& options) { return fits_one_lane(options) && is_power_of_two(options.ranks); }

Plan all_gather(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllGather, "recursive_doubling", options);
  Plan plan = begin(Collective::kAllGather, "recursive_doubling", options);
  plan.recv_chunks = options.ranks;
  plan.message_chunks = options.ranks / 2;
  Lane& lane = plan.lanes[0];
  for (Rank bit = 1; bit < options.ranks; bit *= 2) {
    const Rank peer = options.rank ^ bit;
    const Rank ours = options.rank & ~(bit - 1);  // first of the chunks that we have by now
    if (bit == 1) {
      add(lane, {recv(options.rank), to(peer)}, {send(0)});
    } else {
      add(lane, {to(peer)}, {recv(ours, bit)});
    }
    add(lane, {recv(ours ^ bit, bit)}, {from(peer)});
  }
  return plan;
}

}  // namespace hocket::plan::recursive_doubling
