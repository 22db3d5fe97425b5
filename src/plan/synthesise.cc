// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/synthesise.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "plan/builders.h"
#include "plan/write.h"

namespace hocket {
namespace {

using plan::from;
using plan::recv;
using plan::send;
using plan::to;

struct Transfer {
  int64_t begin = 0;
  int64_t end = 0;
  Rank from = 0;
  Rank to = 0;
  int32_t block = 0;
};

// Brings every rank's block to all.
class Gathering {
 public:
  Gathering(Rank ranks, std::span<const Wire> wires)
      : ranks_(ranks), wires_(wires), held_(blocks() * blocks(), kNever), holders_(blocks(), 1), idle_(blocks()) {
    for (Rank rank = 0; rank < ranks; ++rank) held(rank, rank) = 0;
  }

  Result<std::vector<Transfer>> run() {
    for (size_t wire = 0; wire < wires_.size(); ++wire) free_.emplace(0, wire);
    while (!free_.empty()) {
      const auto [time, wire] = free_.top();
      free_.pop();
      load(time, wire);
    }
    for (Rank rank = 0; rank < ranks_; ++rank) {
      for (Rank block = 0; block < ranks_; ++block) {
        if (held(rank, block) == kNever)
          return Status(Code::kInvalidArgument, fmt::format("no wires lead from rank {} to rank {}", block, rank));
      }
    }
    return std::move(transfers_);
  }

 private:
  static constexpr int64_t kNever = INT64_MAX;

  size_t blocks() const { return static_cast<size_t>(ranks_); }
  int64_t& held(Rank rank, Rank block) {
    return held_[static_cast<size_t>(rank) * blocks() + static_cast<size_t>(block)];
  }

  // The rarest block that one end has by now and the other lacks; of equals the one whose turn it is there. -1: none.
  Rank choose(const Wire& wire, int64_t time) {
    Rank best = -1;
    for (Rank turn = 0; turn < ranks_; ++turn) {
      const Rank block = (wire.from + turn) % ranks_;
      if (held(wire.from, block) > time || held(wire.to, block) != kNever) continue;
      if (best < 0 || holders_[static_cast<size_t>(block)] < holders_[static_cast<size_t>(best)]) best = block;
    }
    return best;
  }

  void load(int64_t time, size_t number) {
    const Wire& wire = wires_[number];
    const Rank block = choose(wire, time);
    if (block < 0) {
      wait(time, number);
      return;
    }
    const int64_t end = time + wire.time;
    transfers_.push_back({time, end, wire.from, wire.to, block});
    held(wire.to, block) = end;
    ++holders_[static_cast<size_t>(block)];
    free_.emplace(end, number);
    for (const size_t waiting : std::exchange(idle_[static_cast<size_t>(wire.to)], {})) free_.emplace(end, waiting);
  }

  // Until something more has come to where it begins.
  void wait(int64_t time, size_t number) {
    const Wire& wire = wires_[number];
    int64_t next = kNever;
    for (Rank block = 0; block < ranks_; ++block) {
      const int64_t comes = held(wire.from, block);
      if (comes > time && comes != kNever && held(wire.to, block) == kNever) next = std::min(next, comes);
    }
    if (next != kNever) {
      free_.emplace(next, number);
    } else {
      idle_[static_cast<size_t>(wire.from)].push_back(number);
    }
  }

  using Moment = std::pair<int64_t, size_t>;  // when which wire may be free

  Rank ranks_;
  std::span<const Wire> wires_;
  std::vector<int64_t> held_;              // since when a rank holds a block, or from when on it will
  std::vector<int32_t> holders_;           // of each block
  std::vector<std::vector<size_t>> idle_;  // wires, by the rank that they lead from
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> free_;
  std::vector<Transfer> transfers_;
};

int64_t end_of(const std::vector<Transfer>& transfers) {
  int64_t end = 0;
  for (const Transfer& transfer : transfers) end = std::max(end, transfer.end);
  return end;
}

// The ends of a transfer, in the order of time: who takes something at a moment does so before it sends again.
struct Event {
  int64_t time = 0;
  bool sends = false;
  size_t transfer = 0;
  friend auto operator<=>(const Event&, const Event&) = default;
};

std::vector<Event> events(const std::vector<Transfer>& transfers) {
  std::vector<Event> result;
  result.reserve(2 * transfers.size());
  for (size_t i = 0; i < transfers.size(); ++i) {
    result.push_back({transfers[i].begin, true, i});
    result.push_back({transfers[i].end, false, i});
  }
  std::ranges::sort(result);
  return result;
}

class Writer {
 public:
  Writer(std::vector<Plan>& plans, const std::vector<Transfer>& transfers) : plans_(plans), transfers_(transfers) {}

  void gather() {
    for (const auto& [time, sends, number] : events(transfers_)) {
      const Transfer& transfer = transfers_[number];
      if (sends) {
        plan::add(lane(transfer.from), {to(transfer.to)}, {recv(transfer.block)});
      } else {
        plan::add(lane(transfer.to), {recv(transfer.block)}, {from(transfer.from)});
      }
    }
  }

  // Of the transfers of a gathering over turned wires, the last one first: what went from a rank to others comes from
  // them, and is complete where it began.
  void reduce(Buffer partials, const std::function<Place(Rank)>& result) {
    std::map<std::pair<Rank, int32_t>, int32_t> missing;  // partials that a rank awaits of a block
    for (const Transfer& transfer : transfers_) ++missing[{transfer.from, transfer.block}];
    std::map<std::pair<Rank, int32_t>, bool> begun;
    const std::vector<Event> order = events(transfers_);
    for (auto event = order.rbegin(); event != order.rend(); ++event) {
      const Transfer& transfer = transfers_[event->transfer];
      const Place partial = plan::chunks(partials, transfer.block);
      const Place own = plan::first(send(transfer.block));
      const Rank rank = event->sends ? transfer.from : transfer.to;
      bool& has_begun = begun[{rank, transfer.block}];
      const Place& held = has_begun ? partial : own;
      if (!event->sends) {
        plan::add(lane(rank), {to(transfer.from)}, {held});
        continue;
      }
      const bool complete = --missing[{rank, transfer.block}] == 0 && rank == transfer.block;
      plan::add(lane(rank), {complete ? result(rank) : partial}, {from(transfer.to), held}).last = complete;
      has_begun = true;
    }
  }

 private:
  Lane& lane(Rank rank) { return plans_[static_cast<size_t>(rank)].lanes[0]; }

  std::vector<Plan>& plans_;
  const std::vector<Transfer>& transfers_;
};

Status check_wires(Rank ranks, std::span<const Wire> wires) {
  constexpr int64_t kLongest = int64_t{1} << 40;
  for (size_t i = 0; i < wires.size(); ++i) {
    const Wire& wire = wires[i];
    const bool joins = wire.from >= 0 && wire.from < ranks && wire.to >= 0 && wire.to < ranks && wire.from != wire.to;
    if (!joins || wire.time < 1 || wire.time > kLongest) {
      return {Code::kInvalidArgument, fmt::format("wire {} from {} to {} of time {}: not two of {} ranks, or no time",
                                                  i, wire.from, wire.to, wire.time, ranks)};
    }
  }
  return {};
}

// Messages that are under way on the wires of one pair of ranks.
Result<int32_t> depth_of(std::span<const Wire> wires) {
  std::map<std::pair<Rank, Rank>, int32_t> beside;
  int32_t most = 1;
  for (const Wire& wire : wires) most = std::max(most, ++beside[{wire.from, wire.to}]);
  if (most <= kMaxWiresBeside) return most;
  return Status(
      Code::kInvalidArgument,
      fmt::format("{} wires between two ranks: more than {} should be one of less time", most, kMaxWiresBeside));
}

std::vector<Plan> heads(Collective collective, Rank ranks, int32_t depth) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < ranks; ++rank) {
    Plan plan = plan::begin(collective, "synthesised", {.rank = rank, .ranks = ranks});
    if (collective != Collective::kAllGather) plan.send_chunks = ranks;
    if (collective != Collective::kReduceScatter) plan.recv_chunks = ranks;
    if (collective == Collective::kReduceScatter) plan.scratch_chunks = ranks;
    plan.depth = depth;
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace

Result<Synthesis> synthesise(Collective collective, Rank ranks, std::span<const Wire> wires) {
  if (ranks < 2 || ranks > kMaxSynthesised)
    return Status(Code::kInvalidArgument, fmt::format("{} ranks, not 2 to {}", ranks, kMaxSynthesised));
  if (collective != Collective::kAllGather && collective != Collective::kReduceScatter &&
      collective != Collective::kAllReduce)
    return Status(Code::kInvalidArgument, fmt::format("{} cannot be synthesised", name(collective)));
  HOCKET_TRY(check_wires(ranks, wires));
  const Result<int32_t> depth = depth_of(wires);
  if (!depth.ok()) return depth.status();
  Synthesis made{heads(collective, ranks, *depth), 0};
  const bool scatters = collective == Collective::kReduceScatter;
  if (collective != Collective::kAllGather) {
    std::vector<Wire> turned(wires.begin(), wires.end());
    for (Wire& wire : turned) std::swap(wire.from, wire.to);
    const Result<std::vector<Transfer>> transfers = Gathering(ranks, turned).run();
    if (!transfers.ok()) return transfers.status();
    const auto result = [&](Rank rank) { return scatters ? recv(0) : recv(rank); };
    Writer(made.plans, *transfers).reduce(scatters ? Buffer::kScratch : Buffer::kRecv, result);
    made.time += end_of(*transfers);
  }
  if (scatters) return made;
  if (collective == Collective::kAllGather) {
    for (Plan& plan : made.plans) plan::add(plan.lanes[0], {recv(plan.rank)}, {send(0)});
  }
  const Result<std::vector<Transfer>> transfers = Gathering(ranks, wires).run();
  if (!transfers.ok()) return transfers.status();
  Writer(made.plans, *transfers).gather();
  made.time += end_of(*transfers);
  return made;
}

}  // namespace hocket
