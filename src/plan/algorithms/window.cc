// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Windows: every rank reads what it needs straight out of its peers' buffers and (but for window_put) writes its own
// only; nothing is staged. Signals say when a buffer may be used (its rank has come, or has written it) and when it is
// its rank's own again (all are done with it). Reductions combine in rank order.
#include <algorithm>

#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::window {
namespace {

constexpr std::string_view kName = "window";
constexpr std::string_view kPutName = "window_put";

// Parts of a broadcast: the root copies one while the others read those before.
constexpr int32_t kParts = 8;

void signal(Lane& lane, const Places& peers) {
  for (auto next = peers.begin(); next != peers.end();) {
    const auto end = next + std::min<ptrdiff_t>(kMaxDestinations, peers.end() - next);
    add(lane, Places(next, end), {});
    next = end;
  }
}

void await(Lane& lane, const Places& peers) {
  for (auto next = peers.begin(); next != peers.end();) {
    const auto end = next + std::min<ptrdiff_t>(kMaxSources, peers.end() - next);
    add(lane, {}, Places(next, end));
    next = end;
  }
}

// Nobody goes on before all have come here.
void meet(Lane& lane, const BuildOptions& options) {
  signal(lane, to_all_others(options));
  await(lane, to_all_others(options));
}

Places at_all_others(const BuildOptions& options, const Place& own) {
  Places places;
  for (const Place& place : at_all(options, own)) {
    if (place.kind == Place::Kind::kWindow) places.push_back(place);
  }
  return places;
}

// The others, each rank beginning with another one: no memory is read by all at once.
template <typename Use>
void for_all_others(const BuildOptions& options, const Use& use) {
  for (Rank distance = 1; distance < options.ranks; ++distance) use(shifted(options, distance));
}

}  // namespace

bool fits_out_of_place(const BuildOptions& options) { return fits_one_lane(options) && !options.in_place; }

Plan all_reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, kName, options);
  Plan plan = begin(Collective::kAllReduce, kName, options, 1, options.ranks);
  plan.scratch_chunks = options.ranks > kMaxSources ? options.ranks : 0;
  Lane& lane = plan.lanes[0];
  meet(lane, options);
  finish_split(lane, {recv(options.rank)}, at_all(options, first(send(options.rank))), options.rank);
  signal(lane, to_all_others(options));
  for_all_others(options, [&](Rank peer) {
    await(lane, {from(peer)});
    add(lane, {recv(peer)}, {at(peer, recv(peer))});
  });
  meet(lane, options);
  return plan;
}

// Each rank computes one chunk and writes it into everybody's buffer: fewer bytes move and ranks meet once less. Who is
// late writes even where the call has failed and returned meanwhile: such a call takes its buffer's pages back.
Plan all_reduce_put(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, kPutName, options);
  Plan plan = begin(Collective::kAllReduce, kPutName, options, 1, options.ranks);
  plan.scratch_chunks = options.ranks > kMaxSources ? options.ranks : 0;
  Lane& lane = plan.lanes[0];
  const Place mine = recv(options.rank);
  const bool at_once = options.ranks <= kMaxDestinations;
  meet(lane, options);
  finish_split(lane, at_once ? at_all(options, mine) : Places{mine}, at_all(options, first(send(options.rank))),
               options.rank);
  if (!at_once) spread(lane, at_all_others(options, mine), mine);
  meet(lane, options);
  return plan;
}

Plan reduce_scatter(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kReduceScatter, kName, options);
  Plan plan = begin(Collective::kReduceScatter, kName, options);
  plan.send_chunks = options.ranks;
  plan.scratch_chunks = options.ranks > kMaxSources ? options.ranks : 0;
  Lane& lane = plan.lanes[0];
  meet(lane, options);
  finish_split(lane, {recv(0)}, at_all(options, first(send(options.rank))), options.rank);
  meet(lane, options);
  return plan;
}

// What a rank contributes goes to its own receive buffer first, and there the others read it.
Plan all_gather(const BuildOptions& options) {
  Plan plan = begin(Collective::kAllGather, kName, options);
  plan.recv_chunks = options.ranks;
  Lane& lane = plan.lanes[0];
  add(lane, {recv(options.rank)}, {send(0)});
  if (options.ranks == 1) return plan;
  meet(lane, options);
  for_all_others(options, [&](Rank peer) { add(lane, {recv(peer)}, {at(peer, recv(peer))}); });
  meet(lane, options);
  return plan;
}

// The root's receive buffer is read, because only there all ranks name the same memory.
Plan broadcast(const BuildOptions& options) {
  Plan plan = begin(Collective::kBroadcast, kName, options, 1, kParts);
  Lane& lane = plan.lanes[0];
  const bool is_root = options.rank == options.root;
  for (int32_t part = 0; part < kParts; ++part) {
    if (is_root) {
      add(lane, {recv(part)}, {send(part)});
      signal(lane, to_all_others(options));
    } else {
      await(lane, {from(options.root)});
      add(lane, {recv(part)}, {at(options.root, recv(part))});
    }
  }
  if (is_root) {
    await(lane, to_all_others(options));
  } else {
    signal(lane, {to(options.root)});
  }
  return plan;
}

Plan reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kReduce, kName, options);
  Plan plan = begin(Collective::kReduce, kName, options);
  plan.scratch_chunks = options.ranks > kMaxSources ? 1 : 0;
  Lane& lane = plan.lanes[0];
  if (options.rank == options.root) {
    await(lane, to_all_others(options));
    finish_split(lane, {recv(0)}, at_all(options, first(send(0))), 0);
    signal(lane, to_all_others(options));
  } else {
    signal(lane, {to(options.root)});
    await(lane, {from(options.root)});
  }
  return plan;
}

Plan all_to_all(const BuildOptions& options) {
  Plan plan = begin(Collective::kAllToAll, kName, options, 1, options.ranks);
  Lane& lane = plan.lanes[0];
  if (options.ranks > 1) signal(lane, to_all_others(options));
  add(lane, {recv(options.rank)}, {send(options.rank)});
  if (options.ranks == 1) return plan;
  await(lane, to_all_others(options));
  for_all_others(options, [&](Rank peer) { add(lane, {recv(peer)}, {at(peer, send(options.rank))}); });
  meet(lane, options);
  return plan;
}

}  // namespace hocket::plan::window
