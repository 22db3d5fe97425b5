// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "prove/contract.h"

#include <fmt/format.h>

#include "plan/lanes.h"

namespace hocket::proving {

Contract::Contract(const Plan& plan, const ProveOptions& options)
    : collective_(plan.collective),
      ranks_(plan.ranks),
      root_(plan.root),
      parts_(parts_of(plan)),
      send_chunks_(plan.send_chunks),
      recv_chunks_(plan.recv_chunks),
      options_(options) {}

Status Contract::check_chunks(const Plan& plan) {
  const int32_t parts = parts_of(plan);
  int32_t send = parts;
  int32_t recv = parts;
  switch (plan.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
      send = recv = plan.send_chunks;
      break;
    case Collective::kAllGather:
    case Collective::kGather:
      recv *= plan.ranks;
      break;
    case Collective::kReduceScatter:
    case Collective::kScatter:
      send *= plan.ranks;
      break;
    case Collective::kAllToAll:
      send *= plan.ranks;
      recv *= plan.ranks;
      break;
    default:
      break;
  }
  if (plan.send_chunks == send && plan.recv_chunks == recv) return {};
  return {Code::kInternal, fmt::format("rank {}: {} send and {} receive chunks, not {} and {}", plan.rank,
                                       plan.send_chunks, plan.recv_chunks, send, recv)};
}

bool Contract::reduces() const { return is_reducing(collective_); }

bool Contract::has(Rank rank, Buffer buffer) const {
  switch (collective_) {
    case Collective::kBarrier:
      return buffer == Buffer::kScratch;
    case Collective::kBroadcast:
    case Collective::kScatter:
      return buffer != Buffer::kSend || is_root(rank);
    case Collective::kReduce:
    case Collective::kGather:
      return buffer != Buffer::kRecv || is_root(rank);
    default:
      return true;
  }
}

Cell Contract::cell(Rank rank, Buffer buffer, int32_t chunk) const {
  if (!options_.in_place) return {buffer, chunk};
  switch (collective_) {
    case Collective::kAllGather:
      return buffer == Buffer::kSend ? Cell{Buffer::kRecv, of_block(rank, chunk)} : Cell{buffer, chunk};
    case Collective::kGather:
      return buffer == Buffer::kSend && is_root(rank) ? Cell{Buffer::kRecv, of_block(rank, chunk)}
                                                      : Cell{buffer, chunk};
    case Collective::kReduceScatter:
      return buffer == Buffer::kRecv ? Cell{Buffer::kSend, of_block(rank, chunk)} : Cell{buffer, chunk};
    case Collective::kScatter:
      return buffer == Buffer::kRecv && is_root(rank) ? Cell{Buffer::kSend, of_block(rank, chunk)}
                                                      : Cell{buffer, chunk};
    default:
      return buffer == Buffer::kRecv ? Cell{Buffer::kSend, chunk} : Cell{buffer, chunk};
  }
}

int64_t Contract::length(Rank rank, Buffer buffer, int32_t chunk) const {
  if (options_.equal_chunks) return 0;
  if (buffer == Buffer::kScratch) {
    const Buffer model = recv_chunks_ > send_chunks_ ? Buffer::kRecv : Buffer::kSend;
    return length(rank, model, chunk % chunks(model));
  }
  switch (collective_) {
    case Collective::kAllGather:
    case Collective::kGather:
      return buffer == Buffer::kSend ? of_block(rank, chunk) : chunk;
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return buffer == Buffer::kRecv ? of_block(rank, chunk) : chunk;
    case Collective::kAllToAll: {
      const Rank source = buffer == Buffer::kSend ? rank : block(chunk);
      const Rank target = buffer == Buffer::kSend ? block(chunk) : rank;
      return (int64_t{source} * ranks_ + target) * parts_ + part(chunk);
    }
    default:
      return chunk;
  }
}

Value Contract::before(Rank rank, Cell cell) const {
  if (!has(rank, Buffer::kSend)) return {};
  if (cell.buffer == Buffer::kSend) return Terms::contribution(rank, cell.chunk);
  const Cell own = this->cell(rank, Buffer::kSend, 0);
  const int32_t chunk = cell.chunk - own.chunk;
  const bool holds_own = own.buffer == cell.buffer && chunk >= 0 && chunk < parts_;
  return holds_own ? Terms::contribution(rank, chunk) : Value{};
}

Promise Contract::after(Rank rank, int32_t chunk) const {
  const auto contribution = [](Rank from, int32_t which) {
    return Promise{Promise::Kind::kContribution, Terms::contribution(from, which), 0, 0};
  };
  const auto reduction = [](Rank contributors, int32_t which) {
    return Promise{Promise::Kind::kReduction, {}, contributors, which};
  };
  switch (collective_) {
    case Collective::kAllReduce:
      return reduction(ranks_, chunk);
    case Collective::kReduce:
      return is_root(rank) ? reduction(ranks_, chunk) : Promise{};
    case Collective::kReduceScatter:
      return reduction(ranks_, of_block(rank, chunk));
    case Collective::kScan:
      return reduction(rank + 1, chunk);
    case Collective::kExScan:
      return reduction(rank, chunk);
    case Collective::kBroadcast:
      return contribution(root_, chunk);
    case Collective::kAllGather:
      return contribution(block(chunk), part(chunk));
    case Collective::kGather:
      return is_root(rank) ? contribution(block(chunk), part(chunk)) : Promise{};
    case Collective::kScatter:
      return contribution(root_, of_block(rank, chunk));
    case Collective::kAllToAll:
      return contribution(block(chunk), of_block(rank, part(chunk)));
    default:
      return {};
  }
}

}  // namespace hocket::proving
