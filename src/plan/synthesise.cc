// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/synthesise.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "plan/builders.h"
#include "plan/gathering.h"
#include "plan/write.h"

namespace hocket {
namespace {

using plan::from;
using plan::recv;
using plan::send;
using plan::to;

constexpr int32_t kMaxFreeParts = 128;  // of all ranks, where the blocks' ways are free

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
  Writer(Synthesis& made, const std::vector<Transfer>& transfers)
      : plans_(made.plans), parts_(made.parts), transfers_(transfers) {}

  void gather() {
    for (const auto& [time, sends, number] : events(transfers_)) {
      const Transfer& transfer = transfers_[number];
      if (sends) {
        plan::add(lane(transfer.from), {to(transfer.to)}, {recv(transfer.part)});
      } else {
        plan::add(lane(transfer.to), {recv(transfer.part)}, {from(transfer.from)});
      }
    }
  }

  // Of the transfers of a gathering over turned wires, the last one first: what went from a rank to others comes from
  // them, and is complete where it began.
  void reduce(Buffer partials, const std::function<Place(int32_t)>& result) {
    std::map<std::pair<Rank, int32_t>, int32_t> missing;  // partials that a rank awaits of a part
    for (const Transfer& transfer : transfers_) ++missing[{transfer.from, transfer.part}];
    std::map<std::pair<Rank, int32_t>, bool> begun;
    const std::vector<Event> order = events(transfers_);
    for (auto event = order.rbegin(); event != order.rend(); ++event) {
      const Transfer& transfer = transfers_[event->transfer];
      const Place partial = plan::chunks(partials, transfer.part);
      const Place own = plan::first(send(transfer.part));
      const Rank rank = event->sends ? transfer.from : transfer.to;
      bool& has_begun = begun[{rank, transfer.part}];
      const Place& held = has_begun ? partial : own;
      if (!event->sends) {
        plan::add(lane(rank), {to(transfer.from)}, {held});
        continue;
      }
      const bool complete = --missing[{rank, transfer.part}] == 0 && rank == transfer.part / parts_;
      plan::add(lane(rank), {complete ? result(transfer.part) : partial}, {from(transfer.to), held}).last = complete;
      has_begun = true;
    }
  }

 private:
  Lane& lane(Rank rank) { return plans_[static_cast<size_t>(rank)].lanes[0]; }

  std::vector<Plan>& plans_;
  int32_t parts_;
  const std::vector<Transfer>& transfers_;
};

Status check_wires(Rank ranks, std::span<const Wire> wires) {
  constexpr int64_t kLongest = int64_t{1} << 30;
  for (size_t i = 0; i < wires.size(); ++i) {
    const Wire& wire = wires[i];
    const bool joins = wire.from >= 0 && wire.from < ranks && wire.to >= 0 && wire.to < ranks && wire.from != wire.to;
    if (!joins || wire.time < 1 || wire.time > kLongest) {
      return {Code::kInvalidArgument, fmt::format("wire {} from {} to {} of time {}: not two of {} ranks, or no time",
                                                  i, wire.from, wire.to, wire.time, ranks)};
    }
    for (const Port& port : wire.ports) {
      if (port.number >= 0 && port.number < kMaxPorts && port.time >= 1 && port.time <= wire.time) continue;
      return {Code::kInvalidArgument,
              fmt::format("wire {} from {} to {} goes through port {} in {} of {}: not one of {}", i, wire.from,
                          wire.to, port.number, port.time, wire.time, kMaxPorts)};
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

std::vector<Plan> heads(Collective collective, Rank ranks, int32_t parts, int32_t depth) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < ranks; ++rank) {
    Plan plan = plan::begin(collective, "synthesised", {.rank = rank, .ranks = ranks});
    plan.send_chunks = collective == Collective::kAllGather ? parts : ranks * parts;
    plan.recv_chunks = collective == Collective::kReduceScatter ? parts : ranks * parts;
    if (collective == Collective::kReduceScatter) plan.scratch_chunks = ranks * parts;
    plan.depth = depth;
    plans.push_back(std::move(plan));
  }
  return plans;
}

// Who gets what when, of both halves of an all-reduce.
struct Timing {
  Attempt attempt;
  std::string along;
  std::vector<Transfer> reducing;  // of a gathering over turned wires
  std::vector<Transfer> gathering;
  int64_t time() const { return end_of(reducing) + end_of(gathering); }
};

class Trial {
 public:
  Trial(Collective collective, Rank ranks, std::span<const Wire> wires)
      : collective_(collective), ranks_(ranks), wires_(wires), turned_(wires.begin(), wires.end()) {
    for (Wire& wire : turned_) std::swap(wire.from, wire.to);
  }

  Status add(Attempt attempt, std::string_view along) {
    Timing timing{attempt, std::string(along), {}, {}};
    if (collective_ != Collective::kAllGather) {
      attempt.backwards = true;
      Result<std::vector<Transfer>> transfers = gather(ranks_, turned_, attempt);
      if (!transfers.ok()) return transfers.status();
      timing.reducing = std::move(*transfers);
    }
    if (collective_ != Collective::kReduceScatter) {
      attempt.backwards = false;
      Result<std::vector<Transfer>> transfers = gather(ranks_, wires_, attempt);
      if (!transfers.ok()) return transfers.status();
      timing.gathering = std::move(*transfers);
    }
    if (is_worthwhile(timing.time())) best_ = std::move(timing);
    return {};
  }

  const Timing& best() const { return *best_; }

 private:
  // More parts cost messages: they have to save a thousandth of the time.
  bool is_worthwhile(int64_t time) const { return !best_.has_value() || time / 999 < best_->time() / 1000; }

  Collective collective_;
  Rank ranks_;
  std::span<const Wire> wires_;
  std::vector<Wire> turned_;
  std::optional<Timing> best_;
};

Status check_found(Rank ranks, const FoundRoutes& found) {
  const auto is_wrong = [&](const std::vector<Rank>& route) {
    return route.size() != static_cast<size_t>(ranks) ||
           std::ranges::any_of(route, [&](Rank rank) { return rank < 0 || rank >= ranks; });
  };
  if (std::ranges::none_of(found.rings, is_wrong) && std::ranges::none_of(found.trees, is_wrong)) return {};
  return {Code::kInvalidArgument, fmt::format("a ring or tree is not one of {} ranks", ranks)};
}

// Rings and trees that take a way where no wire is are left out: they fail.
Result<Timing> quickest(Collective collective, Rank ranks, std::span<const Wire> wires, const FoundRoutes& found) {
  Trial trial(collective, ranks, wires);
  HOCKET_TRY(trial.add({.parts = 1}, ""));
  for (const int32_t parts : {2, 3, 4, 6, 8, 12, 16}) {
    if (parts * ranks <= kMaxFreeParts) HOCKET_TRY(trial.add({.parts = parts}, ""));
  }
  const auto follow = [&](size_t tracks, const FoundRoutes& along, std::string_view name) {
    const auto few = static_cast<size_t>(std::max(1, kMaxSynthesisedParts / ranks));
    for (size_t parts = tracks; parts > 0 && parts <= few; parts *= 2)
      (void)trial.add({.parts = static_cast<int32_t>(parts), .along = along}, name);
  };
  follow(found.rings.size(), {.rings = found.rings}, "rings");
  follow(found.trees.size(), {.trees = found.trees}, "trees");
  return trial.best();
}

}  // namespace

Result<Synthesis> synthesise(Collective collective, Rank ranks, std::span<const Wire> wires, const FoundRoutes& found) {
  if (ranks < 2 || ranks > kMaxSynthesised)
    return Status(Code::kInvalidArgument, fmt::format("{} ranks, not 2 to {}", ranks, kMaxSynthesised));
  if (collective != Collective::kAllGather && collective != Collective::kReduceScatter &&
      collective != Collective::kAllReduce)
    return Status(Code::kInvalidArgument, fmt::format("{} cannot be synthesised", name(collective)));
  HOCKET_TRY(check_wires(ranks, wires));
  HOCKET_TRY(check_found(ranks, found));
  const Result<int32_t> depth = depth_of(wires);
  if (!depth.ok()) return depth.status();
  const Result<Timing> timing = quickest(collective, ranks, wires, found);
  if (!timing.ok()) return timing.status();
  const int32_t parts = timing->attempt.parts;
  Synthesis made{heads(collective, ranks, parts, *depth),
                 static_cast<double>(timing->time()) / static_cast<double>(kFine), parts, timing->along};
  const bool scatters = collective == Collective::kReduceScatter;
  const auto result = [&](int32_t part) { return recv(scatters ? part % parts : part); };
  Writer(made, timing->reducing).reduce(scatters ? Buffer::kScratch : Buffer::kRecv, result);
  if (collective == Collective::kAllGather) {
    for (Plan& plan : made.plans) plan::add(plan.lanes[0], {recv(plan.rank * parts, parts)}, {send(0, parts)});
  }
  Writer(made, timing->gathering).gather();
  return made;
}

}  // namespace hocket
