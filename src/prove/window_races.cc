// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "prove/window_races.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "plan/regions.h"
#include "plan/text.h"

namespace hocket::proving {
namespace {

struct Access {
  size_t lane = 0;  // among all lanes
  size_t step = 0;
  bool writes = false;
  const Place* place = nullptr;
};

bool reaches_out(const Access& access) { return access.place->kind == Place::Kind::kWindow; }

// For every step, how many steps of every lane had ended at least when it began; and the same for every lane's end.
class Clock {
 public:
  using Times = std::vector<uint32_t>;  // by lane

  explicit Clock(const Network& network) : ended_(network.lanes().size(), Times(network.lanes().size(), 0)) {
    struct Queue {
      std::vector<Times> messages;
      size_t taken = 0;
    };
    std::vector<Queue> queues(network.pipes().size());
    began_.resize(network.lanes().size());
    Run run(network, Run::kUnbounded);
    run.go([&](size_t lane, size_t step, size_t) {
      const Network::Lane& here = network.lanes()[lane];
      Times& now = ended_[lane];
      for (const uint32_t pipe : network.received(here, step)) {
        Queue& queue = queues[pipe];
        raise(now, queue.messages[queue.taken++]);
        if (queue.taken == queue.messages.size()) queue = {};
      }
      for (const After& after : network.step(here, step).after) {
        const size_t awaited = network.lane_of(here.rank, after.lane);
        const auto position = static_cast<size_t>(after.step);
        raise(now, began_[awaited][position]);
        now[awaited] = std::max(now[awaited], static_cast<uint32_t>(position + 1));
      }
      began_[lane].push_back(now);
      now[lane] = static_cast<uint32_t>(step + 1);
      for (const uint32_t pipe : network.sent(here, step)) queues[pipe].messages.push_back(now);
      return true;
    });
  }

  const Times& began(const Access& access) const { return began_[access.lane][access.step]; }
  const Times& ended(size_t lane) const { return ended_[lane]; }
  // `earlier` has ended when `later` begins.
  bool before(const Access& earlier, const Access& later) const { return began(later)[earlier.lane] > earlier.step; }

 private:
  static void raise(Times& now, const Times& known) {
    for (size_t lane = 0; lane < now.size(); ++lane) now[lane] = std::max(now[lane], known[lane]);
  }

  std::vector<std::vector<Times>> began_;  // by lane and step
  std::vector<Times> ended_;               // by lane
};

class WindowRaces {
 public:
  WindowRaces(const Network& network, const Contract& contract)
      : network_(network), contract_(contract), clock_(network) {}

  Status run() {
    // First what is reached from afar, then all that is done with the same chunks.
    for_each_access([&](const CellKey& cell, const Access& access) {
      if (reaches_out(access)) touched_[cell].push_back(access);
    });
    for_each_access([&](const CellKey& cell, const Access& access) {
      if (reaches_out(access)) return;
      if (const auto found = touched_.find(cell); found != touched_.end()) found->second.push_back(access);
    });
    for (const auto& [cell, accesses] : touched_) {
      HOCKET_TRY(check_call(std::get<0>(cell), accesses));
      HOCKET_TRY(check_pairs(accesses));
    }
    return {};
  }

 private:
  using CellKey = std::tuple<Rank, Buffer, int32_t>;  // owner, buffer, chunk

  template <typename Visit>
  void for_each_access(const Visit& visit) const {
    for (size_t lane = 0; lane < network_.lanes().size(); ++lane) {
      const Network::Lane& here = network_.lanes()[lane];
      for (size_t step = 0; step < here.steps; ++step) {
        const Step& code = network_.step(here, step);
        for (const Place& place : code.sources) visit_place({lane, step, false, &place}, visit);
        for (const Place& place : code.destinations) visit_place({lane, step, true, &place}, visit);
      }
    }
  }

  template <typename Visit>
  void visit_place(const Access& access, const Visit& visit) const {
    const Place& place = *access.place;
    if (!place.names_chunks() || place.buffer == Buffer::kScratch) return;
    const Rank owner = place.owner(network_.lanes()[access.lane].rank);
    for_each_chunk(place.regions, contract_.chunks(place.buffer), [&](int32_t chunk) {
      const Cell cell = contract_.cell(owner, place.buffer, chunk);
      visit({owner, cell.buffer, cell.chunk}, access);
    });
  }

  // Outside its call the memory is the caller's.
  Status check_call(Rank owner, const std::vector<Access>& accesses) const {
    const size_t first = network_.lane_of(owner, 0);
    const size_t end = first + network_.lanes_of(owner);
    for (const Access& access : accesses) {
      if (!reaches_out(access)) continue;
      bool has_begun = false;
      bool is_known = false;
      for (size_t lane = first; lane < end; ++lane) {
        has_begun = has_begun || clock_.began(access)[lane] > 0;
        is_known = is_known || clock_.ended(lane)[access.lane] > access.step;
      }
      if (!has_begun) return fault(access, fmt::format("rank {} may not have begun the call", owner));
      if (!is_known) return fault(access, fmt::format("rank {} may have ended the call", owner));
    }
    return {};
  }

  // Those within one rank are looked at in races.h.
  Status check_pairs(const std::vector<Access>& accesses) const {
    for (const Access& one : accesses) {
      if (!one.writes) continue;
      for (const Access& other : accesses) {
        if (one.lane == other.lane || !(reaches_out(one) || reaches_out(other))) continue;
        if (clock_.before(one, other) || clock_.before(other, one)) continue;
        const Network::Lane& there = network_.lanes()[other.lane];
        return fault(one, Network::where(there, other.step) + " may touch it at once");
      }
    }
    return {};
  }

  Status fault(const Access& access, const std::string& why) const {
    return {Code::kInternal,
            fmt::format("window race: {} {} {}, when {}", Network::where(network_.lanes()[access.lane], access.step),
                        access.writes ? "writes" : "reads", to_text(*access.place), why)};
  }

  const Network& network_;
  const Contract& contract_;
  const Clock clock_;
  std::map<CellKey, std::vector<Access>> touched_;
};

bool has_windows(const Plan& plan) {
  const auto is_window = [](const Place& place) { return place.kind == Place::Kind::kWindow; };
  return std::ranges::any_of(plan.lanes, [&](const Lane& lane) {
    return std::ranges::any_of(lane.steps, [&](const Step& step) {
      return std::ranges::any_of(step.sources, is_window) || std::ranges::any_of(step.destinations, is_window);
    });
  });
}

}  // namespace

Status check_window_races(const Network& network, const Contract& contract) {
  if (std::ranges::none_of(network.plans(), has_windows)) return {};
  return WindowRaces(network, contract).run();
}

}  // namespace hocket::proving
