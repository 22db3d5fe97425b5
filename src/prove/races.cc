// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "prove/races.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "plan/regions.h"
#include "plan/text.h"

namespace hocket::proving {
namespace {

constexpr size_t kPasses = 2;

struct Access {
  size_t lane = 0;  // within the rank
  size_t step = 0;
  bool writes = false;
};

// Two steps of one rank, of different lanes.
struct Conflict {
  Access one;
  Access other;
  bool across_passes = false;  // scratch: also `one` of a pass with `other` of the next, and the other way round
  Cell cell;
};

// Chunks of one buffer of one rank, and who touches them.
class Touched {
 public:
  explicit Touched(int32_t chunks) : lane_(static_cast<size_t>(chunks), kNobody) {}

  // Most chunks belong to one lane: only for those that do not are accesses kept.
  void note_lane(int32_t chunk, size_t lane) {
    auto& owner = lane_[static_cast<size_t>(chunk)];
    owner = owner == kNobody || owner == static_cast<int32_t>(lane) ? static_cast<int32_t>(lane) : kMany;
  }

  bool is_shared(int32_t chunk) const { return lane_[static_cast<size_t>(chunk)] == kMany; }

 private:
  static constexpr int32_t kNobody = -1;
  static constexpr int32_t kMany = -2;
  std::vector<int32_t> lane_;
};

class RankAccesses {
 public:
  RankAccesses(const Plan& plan, const Contract& contract) : plan_(plan), contract_(contract) {}

  std::vector<Conflict> conflicts() {
    std::vector<Touched> touched;
    for (const Buffer buffer : {Buffer::kSend, Buffer::kRecv, Buffer::kScratch})
      touched.emplace_back(chunks_of(plan_, buffer));
    for_each_access([&](Cell cell, const Access& access) {
      touched[static_cast<size_t>(cell.buffer)].note_lane(cell.chunk, access.lane);
    });
    std::map<std::pair<Buffer, int32_t>, std::vector<Access>> shared;
    for_each_access([&](Cell cell, const Access& access) {
      if (touched[static_cast<size_t>(cell.buffer)].is_shared(cell.chunk))
        shared[{cell.buffer, cell.chunk}].push_back(access);
    });
    std::vector<Conflict> result;
    for (const auto& [cell, accesses] : shared) {
      for (size_t i = 0; i < accesses.size(); ++i) {
        for (size_t j = i + 1; j < accesses.size(); ++j) {
          if (accesses[i].lane == accesses[j].lane || !(accesses[i].writes || accesses[j].writes)) continue;
          result.push_back({accesses[i], accesses[j], cell.first == Buffer::kScratch, {cell.first, cell.second}});
        }
      }
    }
    return result;
  }

 private:
  template <typename Visit>
  void for_each_access(const Visit& visit) const {
    for (size_t lane = 0; lane < plan_.lanes.size(); ++lane) {
      for (size_t step = 0; step < plan_.lanes[lane].steps.size(); ++step) {
        const Step& code = plan_.lanes[lane].steps[step];
        for (const Place& place : code.sources) visit_place(place, {lane, step, false}, visit);
        for (const Place& place : code.destinations) visit_place(place, {lane, step, true}, visit);
      }
    }
  }

  template <typename Visit>
  void visit_place(const Place& place, const Access& access, const Visit& visit) const {
    if (place.kind != Place::Kind::kChunk) return;  // windows: see window_races.h
    for_each_chunk(place.regions, chunks_of(plan_, place.buffer),
                   [&](int32_t chunk) { visit(contract_.cell(plan_.rank, place.buffer, chunk), access); });
  }

  const Plan& plan_;
  const Contract& contract_;
};

// For every step of one rank: how far each lane of that rank had come, at least, when the step began.
class Clock {
 public:
  Clock(const Network& network, Rank rank) : network_(network), rank_(rank), width_(network.lanes_of(rank)) {
    std::vector<Times> lanes(network.lanes().size(), Times(width_, 0));
    struct Queue {
      std::vector<Times> messages;
      size_t taken = 0;
    };
    std::vector<Queue> queues(network.pipes().size());
    began_.resize(width_);
    Run run(network, Run::kUnbounded, kPasses);
    run.go([&](size_t lane, size_t step, size_t pass) {
      const Network::Lane& here = network.lanes()[lane];
      Times& now = lanes[lane];
      for (const uint32_t pipe : network.received(here, step)) {
        Queue& queue = queues[pipe];
        raise(now, queue.messages[queue.taken++]);
        if (queue.taken == queue.messages.size()) queue = {};
      }
      for (const After& after : network.step(here, step).after) await(now, here, after, pass);
      if (here.rank == rank) {
        began_[static_cast<size_t>(here.number)].push_back(now);
        now[static_cast<size_t>(here.number)] = pass * here.steps + step + 1;
      } else {
        note(lane, now);
      }
      for (const uint32_t pipe : network.sent(here, step)) queues[pipe].messages.push_back(now);
      return true;
    });
  }

  // `earlier` of pass `pass` has ended when `later` of pass `later_pass` begins.
  bool before(const Access& earlier, size_t pass, const Access& later, size_t later_pass) const {
    const size_t position = later_pass * steps(later.lane) + later.step;
    return began_[later.lane][position][earlier.lane] > pass * steps(earlier.lane) + earlier.step;
  }

 private:
  using Times = std::vector<size_t>;

  size_t steps(size_t lane) const { return network_.plans()[static_cast<size_t>(rank_)].lanes[lane].steps.size(); }

  static void raise(Times& now, const Times& known) {
    for (size_t lane = 0; lane < now.size(); ++lane) now[lane] = std::max(now[lane], known[lane]);
  }

  // What the awaited step knew, and that it has ended.
  void await(Times& now, const Network::Lane& here, const After& after, size_t pass) {
    const size_t awaited = network_.lane_of(here.rank, after.lane);
    const size_t position = pass * network_.lanes()[awaited].steps + static_cast<size_t>(after.step);
    if (here.rank == rank_) {
      const auto number = static_cast<size_t>(after.lane);
      raise(now, began_[number][position]);
      now[number] = std::max(now[number], position + 1);
    } else {
      raise(now, noted_[awaited][position]);
    }
  }

  // Other ranks' steps: kept only where a lane of theirs may wait for them.
  void note(size_t lane, const Times& now) {
    if (network_.lanes_of(network_.lanes()[lane].rank) > 1) noted_[lane].push_back(now);
  }

  const Network& network_;
  const Rank rank_;
  const size_t width_;
  std::vector<std::vector<Times>> began_;       // per lane of the rank and step
  std::map<size_t, std::vector<Times>> noted_;  // per lane of other ranks and step
};

// The pass of each, if they may run at once.
std::optional<std::pair<size_t, size_t>> race(const Clock& clock, const Conflict& conflict) {
  for (const auto& [pass, other] : {std::pair<size_t, size_t>{0, 0}, {0, 1}, {1, 0}}) {
    if (pass != other && !conflict.across_passes) continue;
    if (clock.before(conflict.one, pass, conflict.other, other)) continue;
    if (clock.before(conflict.other, other, conflict.one, pass)) continue;
    return std::pair{pass, other};
  }
  return std::nullopt;
}

}  // namespace

Status check_races(const Network& network, const Contract& contract) {
  for (const Plan& plan : network.plans()) {
    if (plan.lanes.size() < 2) continue;
    const std::vector<Conflict> conflicts = RankAccesses(plan, contract).conflicts();
    if (conflicts.empty()) continue;
    const Clock clock(network, plan.rank);
    for (const Conflict& conflict : conflicts) {
      const auto passes = race(clock, conflict);
      if (!passes) continue;
      const Place place{.kind = Place::Kind::kChunk,
                        .buffer = conflict.cell.buffer,
                        .peer = -1,
                        .first = false,
                        .regions = {{.first = conflict.cell.chunk, .count = 1, .stride = 0, .block = 1}}};
      return {Code::kInternal,
              fmt::format("race: rank {} lane {} step {} and lane {} step {}{} touch {} at once", plan.rank,
                          conflict.one.lane, conflict.one.step, conflict.other.lane, conflict.other.step,
                          passes->first == passes->second ? "" : " of neighbouring passes", to_text(place))};
    }
  }
  return {};
}

}  // namespace hocket::proving
