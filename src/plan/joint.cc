// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/joint.h"

#include "plan/write.h"

namespace hocket {
namespace {

using namespace plan;  // NOLINT(google-build-using-namespace): its words

bool has_blocks_to_send(Collective collective) {
  return collective == Collective::kReduceScatter || collective == Collective::kAllToAll ||
         collective == Collective::kScatter;
}

bool has_blocks_to_receive(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kAllToAll ||
         collective == Collective::kGather;
}

void meet(Lane& lane, const BuildOptions& options) {
  if (options.ranks == 1) return;
  add(lane, to_all_others(options), {});
  add(lane, {}, to_all_others(options));
}

// The same place, in the buffer of that rank.
Place of(Rank rank, const BuildOptions& options, Place place) { return rank == options.rank ? place : at(rank, place); }

void add_steps(Collective collective, const BuildOptions& options, Lane& lane) {
  const Rank rank = options.rank;
  const bool is_root = rank == options.root;
  switch (collective) {
    case Collective::kAllReduce:
      finish(lane, at_all(options, recv(rank)), at_all(options, first(send(rank))));
      break;
    case Collective::kReduce:
      if (is_root) finish(lane, {recv(0)}, at_all(options, first(send(0))));
      break;
    case Collective::kReduceScatter:
      finish(lane, {recv(0)}, at_all(options, first(send(rank))));
      break;
    case Collective::kBroadcast:
      if (is_root) add(lane, at_all(options, recv(0)), {send(0)});
      break;
    case Collective::kAllGather:
      add(lane, at_all(options, recv(rank)), {send(0)});
      break;
    case Collective::kGather:
      add(lane, {of(options.root, options, recv(rank))}, {send(0)});
      break;
    case Collective::kScatter:
      for (Rank peer = 0; is_root && peer < options.ranks; ++peer) {
        add(lane, {of(peer, options, recv(0))}, {send(peer)});
      }
      break;
    case Collective::kAllToAll:
      for (Rank peer = 0; peer < options.ranks; ++peer) add(lane, {recv(peer)}, {of(peer, options, send(rank))});
      break;
    default:
      break;
  }
}

}  // namespace

bool fits_joint(Collective collective, const BuildOptions& options) {
  if (!fits_any(options) || options.ranks > kMaxSources) return false;
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
    case Collective::kBroadcast:
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kScatter:
      return true;
    case Collective::kAllToAll:
      return !options.in_place;
    default:
      return false;
  }
}

Plan joint_plan(Collective collective, const BuildOptions& options) {
  Plan plan = begin(collective, "joint", options, 1, collective == Collective::kAllReduce ? options.ranks : 1);
  if (has_blocks_to_send(collective)) plan.send_chunks = options.ranks;
  if (has_blocks_to_receive(collective)) plan.recv_chunks = options.ranks;
  Lane& lane = plan.lanes[0];
  meet(lane, options);
  add_steps(collective, options, lane);
  meet(lane, options);
  return plan;
}

Plan meeting_plan(Collective collective, const BuildOptions& options) {
  Plan plan = begin(collective, "low_latency", options);
  Lane& lane = plan.lanes[0];
  meet(lane, options);
  add(lane, {recv(0)}, {send(0)});
  return plan;
}

}  // namespace hocket
