// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "collective.h"

namespace hocket::perf {
namespace {

// What every rank holds of a buffer that is cut into equal pieces: a multiple of 16 bytes, as in nccl-tests.
size_t piece(size_t count, size_t element_bytes, int ranks) {
  return (count / static_cast<size_t>(ranks)) & ~(16 / element_bytes - 1);
}

size_t times(int ranks, size_t count) { return static_cast<size_t>(ranks) * count; }

Shape whole(size_t count, size_t, int, const Traffic&) { return {.send = count, .receive = count, .count = count}; }

Shape gathered(size_t count, size_t element_bytes, int ranks, const Traffic&) {
  const size_t each = piece(count, element_bytes, ranks);
  return {.send = each, .receive = times(ranks, each), .count = each, .send_in_place = each};
}

Shape scattered(size_t count, size_t element_bytes, int ranks, const Traffic&) {
  const size_t each = piece(count, element_bytes, ranks);
  return {.send = times(ranks, each), .receive = each, .count = each, .receive_in_place = each};
}

Shape exchanged(size_t count, size_t element_bytes, int ranks, const Traffic&) {
  const size_t each = piece(count, element_bytes, ranks);
  return {.send = times(ranks, each), .receive = times(ranks, each), .count = each};
}

// The traffic is balanced: what rank 0 sends in all is what any rank sends and receives.
Shape unevenly_exchanged(size_t count, size_t element_bytes, int ranks, const Traffic& traffic) {
  const size_t each = piece(count, element_bytes, ranks);
  size_t all = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    all += traffic.bytes(0, peer, ranks, times(ranks, each) * element_bytes) / element_bytes;
  }
  return {.send = all, .receive = all, .count = each};
}

Shape nothing(size_t, size_t, int, const Traffic&) { return {}; }

double twice_all_but_one(int ranks) { return 2.0 * (ranks - 1) / ranks; }
double all_but_one(int ranks) { return static_cast<double>(ranks - 1) / ranks; }
double one(int) { return 1; }

Parts own(const Role& role) { return {{.rank = role.rank, .count = role.shape.send}}; }

Parts own_on_root(const Role& role) { return role.rank == role.root ? own(role) : Parts(); }

Parts reduced(const Role& role) { return {{.source = Part::kReduction, .count = role.shape.receive}}; }

Parts reduced_on_root(const Role& role) { return role.rank == role.root ? reduced(role) : Parts(); }

Parts reduced_piece(const Role& role) {
  return {{.source = Part::kReduction, .first = times(role.rank, role.shape.count), .count = role.shape.receive}};
}

Parts of_root(const Role& role) { return {{.rank = role.root, .count = role.shape.receive}}; }

Parts piece_of_root(const Role& role) {
  return {{.rank = role.root, .first = times(role.rank, role.shape.count), .count = role.shape.receive}};
}

Parts one_of_each(const Role& role) {
  Parts parts;
  for (int peer = 0; peer < role.ranks; ++peer) {
    parts.push_back({.rank = peer, .at = times(peer, role.shape.count), .count = role.shape.count});
  }
  return parts;
}

Parts one_of_each_on_root(const Role& role) { return role.rank == role.root ? one_of_each(role) : Parts(); }

Parts own_piece_of_each(const Role& role) {
  Parts parts = one_of_each(role);
  for (Part& part : parts) part.first = times(role.rank, role.shape.count);
  return parts;
}

// Every rank sends its traffic in rank order, so that what comes from a peer begins where its share for lower ranks
// ends. The traffic depends on the distance only: the peer's share for rank k is our share for the rank as far from us.
Parts own_share_of_each(const Role& role) {
  Parts parts;
  for (int peer = 0; peer < role.ranks; ++peer) {
    size_t first = 0;
    for (int before = 0; before < role.rank; ++before) {
      first += role.traffic.send[static_cast<size_t>((role.rank + before - peer + role.ranks) % role.ranks)];
    }
    const auto index = static_cast<size_t>(peer);
    parts.push_back(
        {.rank = peer, .first = first, .at = role.traffic.receive_at[index], .count = role.traffic.receive[index]});
  }
  return parts;
}

Parts of_previous(const Role& role) {
  return {{.rank = (role.rank + role.ranks - 1) % role.ranks, .count = role.shape.receive}};
}

Parts no_parts(const Role&) { return {}; }

hocketResult_t all_reduce(const Role& role, const Call& call) {
  if (call.codec != nullptr) {
    return hocketAllReduceCompressed(call.send, call.receive, role.shape.count, call.type, call.op, call.codec, nullptr,
                                     call.comm, call.stream);
  }
  return hocketAllReduce(call.send, call.receive, role.shape.count, call.type, call.op, call.comm, call.stream);
}

hocketResult_t all_gather(const Role& role, const Call& call) {
  return hocketAllGather(call.send, call.receive, role.shape.count, call.type, call.comm, call.stream);
}

hocketResult_t broadcast(const Role& role, const Call& call) {
  return hocketBroadcast(call.send, call.receive, role.shape.count, call.type, role.root, call.comm, call.stream);
}

hocketResult_t reduce(const Role& role, const Call& call) {
  return hocketReduce(call.send, call.receive, role.shape.count, call.type, call.op, role.root, call.comm, call.stream);
}

hocketResult_t reduce_scatter(const Role& role, const Call& call) {
  return hocketReduceScatter(call.send, call.receive, role.shape.count, call.type, call.op, call.comm, call.stream);
}

hocketResult_t all_to_all(const Role& role, const Call& call) {
  return hocketAllToAll(call.send, call.receive, role.shape.count, call.type, call.comm, call.stream);
}

hocketResult_t all_to_all_v(const Role& role, const Call& call) {
  const TrafficCounts& traffic = role.traffic;
  return hocketAllToAllV(call.send, traffic.send.data(), traffic.send_from.data(), call.receive, traffic.receive.data(),
                         traffic.receive_at.data(), call.type, call.comm, call.stream);
}

hocketResult_t gather(const Role& role, const Call& call) {
  return hocketGather(call.send, call.receive, role.shape.count, call.type, role.root, call.comm, call.stream);
}

hocketResult_t scatter(const Role& role, const Call& call) {
  return hocketScatter(call.send, call.receive, role.shape.count, call.type, role.root, call.comm, call.stream);
}

hocketResult_t send_recv(const Role& role, const Call& call) {
  const int next = (role.rank + 1) % role.ranks;
  const int previous = (role.rank + role.ranks - 1) % role.ranks;
  if (const hocketResult_t result = hocketGroupStart(); result != hocketSuccess) return result;
  const hocketResult_t sent = hocketSend(call.send, role.shape.count, call.type, next, call.comm, call.stream);
  const hocketResult_t received =
      hocketRecv(call.receive, role.shape.count, call.type, previous, call.comm, call.stream);
  const hocketResult_t ended = hocketGroupEnd();
  return sent != hocketSuccess ? sent : received != hocketSuccess ? received : ended;
}

hocketResult_t barrier(const Role&, const Call& call) { return hocketBarrier(call.comm, call.stream); }

}  // namespace

const Collective kAllReduce = {
    .program = "all_reduce_perf",
    .algorithms = "all_reduce",
    .reduces = true,
    .rooted = false,
    .in_place = true,
    .has_data = true,
    .shape = whole,
    .bus_factor = twice_all_but_one,
    .run = all_reduce,
    .sends = own,
    .receives = reduced,
};
const Collective kAllGather = {
    .program = "all_gather_perf",
    .algorithms = "all_gather",
    .reduces = false,
    .rooted = false,
    .in_place = true,
    .has_data = true,
    .shape = gathered,
    .bus_factor = all_but_one,
    .run = all_gather,
    .sends = own,
    .receives = one_of_each,
};
const Collective kBroadcast = {
    .program = "broadcast_perf",
    .algorithms = "broadcast",
    .reduces = false,
    .rooted = true,
    .in_place = true,
    .has_data = true,
    .shape = whole,
    .bus_factor = one,
    .run = broadcast,
    .sends = own_on_root,
    .receives = of_root,
};
const Collective kReduce = {
    .program = "reduce_perf",
    .algorithms = "reduce",
    .reduces = true,
    .rooted = true,
    .in_place = true,
    .has_data = true,
    .shape = whole,
    .bus_factor = one,
    .run = reduce,
    .sends = own,
    .receives = reduced_on_root,
};
const Collective kReduceScatter = {
    .program = "reduce_scatter_perf",
    .algorithms = "reduce_scatter",
    .reduces = true,
    .rooted = false,
    .in_place = true,
    .has_data = true,
    .shape = scattered,
    .bus_factor = all_but_one,
    .run = reduce_scatter,
    .sends = own,
    .receives = reduced_piece,
};
const Collective kAllToAll = {
    .program = "alltoall_perf",
    .algorithms = "all_to_all",
    .reduces = false,
    .rooted = false,
    .in_place = true,
    .has_data = true,
    .shape = exchanged,
    .bus_factor = all_but_one,
    .run = all_to_all,
    .sends = own,
    .receives = own_piece_of_each,
};
const Collective kAllToAllV = {
    .program = "alltoallv_perf",
    .algorithms = "all_to_all",
    .reduces = false,
    .rooted = false,
    .in_place = false,
    .has_data = true,
    .shape = unevenly_exchanged,
    .bus_factor = all_but_one,
    .run = all_to_all_v,
    .sends = own,
    .receives = own_share_of_each,
};
const Collective kGather = {
    .program = "gather_perf",
    .algorithms = "gather",
    .reduces = false,
    .rooted = true,
    .in_place = true,
    .has_data = true,
    .shape = gathered,
    .bus_factor = all_but_one,
    .run = gather,
    .sends = own,
    .receives = one_of_each_on_root,
};
const Collective kScatter = {
    .program = "scatter_perf",
    .algorithms = "scatter",
    .reduces = false,
    .rooted = true,
    .in_place = true,
    .has_data = true,
    .shape = scattered,
    .bus_factor = all_but_one,
    .run = scatter,
    .sends = own_on_root,
    .receives = piece_of_root,
};
const Collective kSendRecv = {
    .program = "sendrecv_perf",
    .algorithms = nullptr,
    .reduces = false,
    .rooted = false,
    .in_place = false,
    .has_data = true,
    .shape = whole,
    .bus_factor = one,
    .run = send_recv,
    .sends = own,
    .receives = of_previous,
};
const Collective kBarrier = {
    .program = "barrier_perf",
    .algorithms = "barrier",
    .reduces = false,
    .rooted = false,
    .in_place = false,
    .has_data = false,
    .shape = nothing,
    .bus_factor = one,
    .run = barrier,
    .sends = no_parts,
    .receives = no_parts,
};

}  // namespace hocket::perf
