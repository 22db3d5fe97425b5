// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Direct: whoever has data sends it to whoever needs it, in one message. One round; reductions combine in rank order.
#include <algorithm>

#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::direct {

Plan reduce_scatter(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kReduceScatter, "direct", options);
  Plan plan = begin(Collective::kReduceScatter, "direct", options);
  plan.send_chunks = options.ranks;
  plan.scratch_chunks = options.ranks > kMaxSources ? options.ranks : 0;
  Lane& lane = plan.lanes[0];
  for (Rank distance = 1; distance < options.ranks; ++distance) {
    const Rank peer = shifted(options, distance);
    add(lane, {to(peer)}, {first(send(peer))});
  }
  finish_split(lane, {recv(0)}, from_all(options, first(send(options.rank))), options.rank);
  return plan;
}

Plan all_gather(const BuildOptions& options) {
  Plan plan = begin(Collective::kAllGather, "direct", options);
  plan.recv_chunks = options.ranks;
  Lane& lane = plan.lanes[0];
  // The others first: they wait for it.
  spread(lane, to_all_others(options), send(0));
  add(lane, {recv(options.rank)}, {send(0)});
  for (Rank distance = 1; distance < options.ranks; ++distance) {
    const Rank peer = shifted(options, -distance);
    add(lane, {recv(peer)}, {from(peer)});
  }
  return plan;
}

Plan broadcast(const BuildOptions& options) {
  Plan plan = begin(Collective::kBroadcast, "direct", options, options.lanes, options.lanes);
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    if (options.rank == options.root) {
      spread(lane, to_all_others(options), send(part));
      add(lane, {recv(part)}, {send(part)});
    } else {
      add(lane, {recv(part)}, {from(options.root)});
    }
  }
  return plan;
}

Plan reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kReduce, "direct", options);
  Plan plan = begin(Collective::kReduce, "direct", options, options.lanes, options.lanes);
  plan.scratch_chunks = options.ranks > kMaxSources ? options.lanes : 0;
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    if (options.rank == options.root) {
      finish_split(lane, {recv(part)}, from_all(options, first(send(part))), part);
    } else {
      add(lane, {to(options.root)}, {first(send(part))});
    }
  }
  return plan;
}

Plan gather(const BuildOptions& options) {
  Plan plan = begin(Collective::kGather, "direct", options);
  plan.recv_chunks = options.ranks;
  Lane& lane = plan.lanes[0];
  if (options.rank != options.root) {
    add(lane, {to(options.root)}, {send(0)});
    return plan;
  }
  add(lane, {recv(options.rank)}, {send(0)});
  for (Rank distance = 1; distance < options.ranks; ++distance) {
    const Rank peer = shifted(options, distance);
    add(lane, {recv(peer)}, {from(peer)});
  }
  return plan;
}

Plan scatter(const BuildOptions& options) {
  Plan plan = begin(Collective::kScatter, "direct", options);
  plan.send_chunks = options.ranks;
  Lane& lane = plan.lanes[0];
  if (options.rank != options.root) {
    add(lane, {recv(0)}, {from(options.root)});
    return plan;
  }
  for (Rank distance = 1; distance < options.ranks; ++distance) {
    const Rank peer = shifted(options, distance);
    add(lane, {to(peer)}, {send(peer)});
  }
  add(lane, {recv(0)}, {send(options.rank)});
  return plan;
}

// All sends come before all receives: no pipe holds more than one message, and nothing is overwritten before it has
// been sent, so that the buffers may be the same. What goes to a peer and comes from it is therefore in the same lane.
Plan all_to_all(const BuildOptions& options) {
  Plan plan = begin(Collective::kAllToAll, "direct", options, std::min(options.lanes, options.ranks), options.ranks);
  const auto lane_of = [&](Rank distance) -> Lane& {
    const auto both_ways = static_cast<size_t>(std::min(distance, options.ranks - distance));
    return plan.lanes[both_ways % plan.lanes.size()];
  };
  for (Rank distance = 1; distance < options.ranks; ++distance) {
    const Rank peer = shifted(options, distance);
    add(lane_of(distance), {to(peer)}, {send(peer)});
  }
  add(plan.lanes[0], {recv(options.rank)}, {send(options.rank)});
  for (Rank distance = 1; distance < options.ranks; ++distance) {
    const Rank peer = shifted(options, -distance);
    add(lane_of(distance), {recv(peer)}, {from(peer)});
  }
  return plan;
}

}  // namespace hocket::plan::direct
