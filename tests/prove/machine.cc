// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
#include "machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "plan/regions.h"

namespace hocket::testing_machine {
namespace {

constexpr size_t kCalls = 2;
constexpr size_t kPasses = 2;

// x -> a x + b modulo 2^64. Reducing is composing: it does not commute unless all a are 1.
struct Map {
  uint64_t a = 1;
  uint64_t b = 0;
  friend bool operator==(const Map&, const Map&) = default;
};

using Maps = std::vector<Map>;

Map then(const Map& f, const Map& g) { return {f.a * g.a, f.b * g.a + g.b}; }
Map prologue(const Map& f) { return {f.a, f.b * 3 + 1}; }
Map epilogue(const Map& f) { return {f.a, f.b * 5 + 2}; }

// One rank's buffers in one pass of one call: every chunk is its own piece of memory.
struct Windows {
  std::vector<Maps> send;
  std::vector<Maps> recv;
  std::vector<Maps*> send_at;  // where a chunk really is
  std::vector<Maps*> recv_at;
};

class Machine {
 public:
  Machine(std::span<const Plan> plans, const MachineOptions& options)
      : plans_(plans), model_(plans[0]), options_(options), random_(options.seed) {
    for (const Plan& plan : plans_) {
      std::vector<Maps>& scratch = scratch_.emplace_back();
      for (int32_t chunk = 0; chunk < plan.scratch_chunks; ++chunk) scratch.push_back(fresh(longest()));
      for (size_t lane = 0; lane < plan.lanes.size(); ++lane) lanes_.push_back({plan.rank, lane, 0, {}, false});
    }
    for (size_t window = 0; window < kCalls * kPasses; ++window) make_windows();
    begun_.assign(plans_.size(), 0);
    ended_.assign(plans_.size(), 0);
  }

  std::optional<std::string> run() {
    for (bool moved = true; moved && !fault_;) {
      moved = false;
      std::ranges::shuffle(lanes_, random_);
      for (LaneState& lane : lanes_) {
        // Some lanes run far ahead of others.
        for (auto tries = random_() % 4; tries > 0 && !fault_ && go(lane); --tries) moved = true;
      }
      if (!moved) moved = std::ranges::any_of(lanes_, [&](LaneState& lane) { return !fault_ && go(lane); });
    }
    if (fault_) return fault_;
    for (const LaneState& lane : lanes_) {
      if (lane.done < length_of(lane) * kCalls * kPasses)
        return fmt::format("rank {} lane {} is stuck", lane.rank, lane.number);
    }
    for (const auto& [ends, pipe] : pipes_) {
      if (!pipe.empty()) return "a message is left over";
    }
    // Ranks without steps.
    for (Rank rank = 0; rank < model_.ranks; ++rank) {
      for (size_t call = 0; call < kCalls; ++call) begin_call(rank, call);
      end_calls(rank);
    }
    return fault_ ? fault_ : check_untouched();
  }

 private:
  struct LaneState {
    Rank rank = 0;
    size_t number = 0;
    size_t done = 0;     // steps, over passes and calls
    Maps result;         // read, not yet written
    bool holds = false;  // between reading and writing
  };

  const Plan& plan_of(Rank rank) const { return plans_[static_cast<size_t>(rank)]; }
  size_t length_of(const LaneState& lane) const { return plan_of(lane.rank).lanes[lane.number].steps.size(); }
  std::deque<Maps>& pipe(Rank from, Rank to, size_t lane) { return pipes_[{from, to, lane}]; }

  Maps fresh(size_t length) {
    Maps maps(length);
    for (Map& map : maps) map = {options_.ordered ? random_() | 1U : 1, random_()};
    return maps;
  }

  size_t longest() const { return options_.equal_chunks ? 2 : 3; }

  // Lengths 1, 2 and 3 in turn, so that neighbours differ.
  size_t length(Rank rank, Buffer buffer, int32_t chunk) const {
    if (options_.equal_chunks) return 2;
    int32_t number = chunk;
    switch (model_.collective) {
      case Collective::kAllGather:
      case Collective::kGather:
        number = buffer == Buffer::kSend ? rank : chunk;
        break;
      case Collective::kReduceScatter:
      case Collective::kScatter:
        number = buffer == Buffer::kRecv ? rank : chunk;
        break;
      case Collective::kAllToAll:
        number = buffer == Buffer::kSend ? rank + 2 * chunk : chunk + 2 * rank;
        if (options_.in_place) number = rank + chunk;  // what goes and what comes are the same memory
        break;
      default:
        break;
    }
    return static_cast<size_t>(1 + number % 3);
  }

  size_t scratch_length(Rank rank, int32_t chunk) const {
    if (model_.recv_chunks > model_.send_chunks) return length(rank, Buffer::kRecv, chunk % model_.recv_chunks);
    return length(rank, Buffer::kSend, chunk % model_.send_chunks);
  }

  void make_windows() {
    std::vector<Windows>& all = windows_.emplace_back(plans_.size());
    std::vector<std::vector<Maps>>& given = given_.emplace_back();
    for (Rank rank = 0; rank < model_.ranks; ++rank) {
      Windows& own = all[static_cast<size_t>(rank)];
      for (int32_t chunk = 0; chunk < model_.send_chunks; ++chunk)
        own.send.push_back(fresh(length(rank, Buffer::kSend, chunk)));
      for (int32_t chunk = 0; chunk < model_.recv_chunks; ++chunk)
        own.recv.push_back(fresh(length(rank, Buffer::kRecv, chunk)));
      std::vector<Maps>& contribution = given.emplace_back();
      for (const Maps& maps : own.send) contribution.push_back(fresh(maps.size()));
      for (Maps& maps : own.send) own.send_at.push_back(&maps);
      for (Maps& maps : own.recv) own.recv_at.push_back(&maps);
      if (options_.in_place) share(own, rank);
    }
  }

  void share(Windows& own, Rank rank) const {
    const auto at = static_cast<size_t>(rank);
    switch (model_.collective) {
      case Collective::kAllGather:
        own.recv_at[at] = own.send_at[0];
        break;
      case Collective::kReduceScatter:
        own.recv_at[0] = own.send_at[at];
        break;
      case Collective::kGather:
        if (rank == model_.root) own.recv_at[at] = own.send_at[0];
        break;
      case Collective::kScatter:
        if (rank == model_.root) own.recv_at[0] = own.send_at[at];
        break;
      case Collective::kBarrier:
        break;
      default:
        own.recv_at = own.send_at;
    }
  }

  // The caller gives what it contributes at the last moment.
  void begin_call(Rank rank, size_t call) {
    const auto at = static_cast<size_t>(rank);
    if (begun_[at] > call) return;
    begun_[at] = call + 1;
    for (size_t window = call * kPasses; window < (call + 1) * kPasses; ++window) {
      for (size_t chunk = 0; chunk < given_[window][at].size(); ++chunk)
        *windows_[window][at].send_at[chunk] = given_[window][at][chunk];
    }
  }

  // The caller takes its results as soon as it can, and then uses the memory for something else.
  void end_calls(Rank rank) {
    const auto at = static_cast<size_t>(rank);
    const auto has_ended = [&](const LaneState& lane) {
      return lane.rank != rank || lane.done >= length_of(lane) * kPasses * (ended_[at] + 1);
    };
    while (ended_[at] < begun_[at] && std::ranges::all_of(lanes_, has_ended)) {
      for (size_t window = ended_[at] * kPasses; window < (ended_[at] + 1) * kPasses; ++window) {
        if (!fault_) fault_ = check_results(window, rank);
        Windows& own = windows_[window][at];
        for (auto* chunks : {&own.send, &own.recv}) {
          for (Maps& maps : *chunks) maps = fresh(maps.size());
        }
        left_.emplace_back(window, rank, own.send, own.recv);
      }
      ++ended_[at];
    }
  }

  std::optional<std::string> check_untouched() const {
    for (const auto& [window, rank, send, recv] : left_) {
      const Windows& own = windows_[window][static_cast<size_t>(rank)];
      if (own.send != send || own.recv != recv)
        return fmt::format("window {}: the memory of rank {} was written after its call", window, rank);
    }
    return std::nullopt;
  }

  size_t window_of(const LaneState& lane) const { return lane.done / length_of(lane); }
  const Step& step_of(const LaneState& lane) const {
    return plan_of(lane.rank).lanes[lane.number].steps[lane.done % length_of(lane)];
  }

  bool may_begin(const LaneState& lane) {
    if (length_of(lane) == 0 || lane.done == length_of(lane) * kCalls * kPasses) return false;
    const size_t window = window_of(lane);
    const Step& step = step_of(lane);
    for (const Place& place : step.sources) {
      if (place.kind == Place::Kind::kMessage && pipe(place.peer, lane.rank, lane.number).empty()) return false;
    }
    for (const Place& place : step.destinations) {
      if (place.kind != Place::Kind::kMessage) continue;
      if (std::ssize(pipe(lane.rank, place.peer, lane.number)) >= model_.depth) return false;
    }
    for (const LaneState& other : lanes_) {
      if (other.rank != lane.rank) continue;
      const size_t call_begin = window / kPasses * kPasses * length_of(other);
      if (other.done < call_begin) return false;
      for (const After& after : step.after) {
        if (static_cast<size_t>(after.lane) != other.number) continue;
        if (other.done <= window * length_of(other) + static_cast<size_t>(after.step)) return false;
      }
    }
    return true;
  }

  // Reading and writing are apart, so that steps of other lanes come between.
  bool go(LaneState& lane) {
    if (lane.holds) {
      write(lane);
      end_calls(lane.rank);
      return true;
    }
    if (!may_begin(lane)) return false;
    begin_call(lane.rank, window_of(lane) / kPasses);
    read(lane);
    return true;
  }

  std::vector<Map*> cells(const LaneState& lane, const Place& place) {
    std::vector<Map*> result;
    const Rank owner = place.kind == Place::Kind::kWindow ? place.peer : lane.rank;
    Windows& own = windows_[window_of(lane)][static_cast<size_t>(owner)];
    for_each_chunk(place.regions, chunks_of(plan_of(lane.rank), place.buffer), [&](int32_t chunk) {
      const auto at = static_cast<size_t>(chunk);
      Maps& maps = place.buffer == Buffer::kSend   ? *own.send_at[at]
                   : place.buffer == Buffer::kRecv ? *own.recv_at[at]
                                                   : scratch_[static_cast<size_t>(lane.rank)][at];
      const size_t count = place.buffer == Buffer::kScratch ? scratch_length(lane.rank, chunk) : maps.size();
      for (size_t i = 0; i < count; ++i) result.push_back(&maps[i]);
    });
    return result;
  }

  void read(LaneState& lane) {
    const Step& step = step_of(lane);
    lane.holds = true;
    lane.result.clear();
    for (size_t i = 0; i < step.sources.size(); ++i) {
      const Place& place = step.sources[i];
      Maps operand;
      if (place.kind == Place::Kind::kMessage) {
        operand = std::move(pipe(place.peer, lane.rank, lane.number).front());
        pipe(place.peer, lane.rank, lane.number).pop_front();
      } else {
        for (const Map* cell : cells(lane, place)) operand.push_back(place.first ? prologue(*cell) : *cell);
      }
      if (i == 0) {
        lane.result = std::move(operand);
        continue;
      }
      if (operand.size() != lane.result.size()) {
        fault_ = "sources are not equally long";
        return;
      }
      for (size_t j = 0; j < operand.size(); ++j) lane.result[j] = then(lane.result[j], operand[j]);
    }
    if (step.last) std::ranges::transform(lane.result, lane.result.begin(), epilogue);
  }

  void write(LaneState& lane) {
    for (const Place& place : step_of(lane).destinations) {
      if (place.kind == Place::Kind::kMessage) {
        pipe(lane.rank, place.peer, lane.number).push_back(lane.result);
        continue;
      }
      const std::vector<Map*> target = cells(lane, place);
      if (target.size() != lane.result.size()) {
        fault_ = "source and destination are not equally long";
        return;
      }
      for (size_t i = 0; i < target.size(); ++i) *target[i] = lane.result[i];
    }
    lane.holds = false;
    ++lane.done;
  }

  // Of ranks [0, contributors).
  Maps reduction(size_t window, Rank contributors, int32_t chunk) const {
    const auto at = static_cast<size_t>(chunk);
    Maps result;
    for (Rank rank = 0; rank < contributors; ++rank) {
      const Maps& operand = given_[window][static_cast<size_t>(rank)][at];
      for (size_t i = 0; i < operand.size(); ++i) {
        if (rank == 0) {
          result.push_back(prologue(operand[i]));
        } else {
          result[i] = then(result[i], prologue(operand[i]));
        }
      }
    }
    const bool scans = model_.collective == Collective::kScan || model_.collective == Collective::kExScan;
    if (!scans) std::ranges::transform(result, result.begin(), epilogue);
    return result;
  }

  // What must be in a chunk of the receive buffer; nothing where nothing is promised.
  std::optional<Maps> expected(size_t window, Rank rank, int32_t chunk) const {
    const auto given = [&](Rank from, int32_t which) {
      return given_[window][static_cast<size_t>(from)][static_cast<size_t>(which)];
    };
    const bool is_root = rank == model_.root;
    switch (model_.collective) {
      case Collective::kAllReduce:
        return reduction(window, model_.ranks, chunk);
      case Collective::kReduceScatter:
        return reduction(window, model_.ranks, rank);
      case Collective::kReduce:
        return is_root ? std::optional(reduction(window, model_.ranks, chunk)) : std::nullopt;
      case Collective::kScan:
        return reduction(window, rank + 1, 0);
      case Collective::kExScan:
        return rank > 0 ? std::optional(reduction(window, rank, 0)) : std::nullopt;
      case Collective::kBroadcast:
        return given(model_.root, chunk);
      case Collective::kScatter:
        return given(model_.root, rank);
      case Collective::kAllGather:
        return given(chunk, 0);
      case Collective::kGather:
        return is_root ? std::optional(given(chunk, 0)) : std::nullopt;
      case Collective::kAllToAll:
        return given(chunk, rank);
      default:
        return std::nullopt;
    }
  }

  std::optional<std::string> check_results(size_t window, Rank rank) const {
    for (int32_t chunk = 0; chunk < model_.recv_chunks; ++chunk) {
      const auto wanted = expected(window, rank, chunk);
      const Maps& found = *windows_[window][static_cast<size_t>(rank)].recv_at[static_cast<size_t>(chunk)];
      if (wanted && *wanted != found) return fmt::format("window {} rank {} chunk {} is wrong", window, rank, chunk);
    }
    return std::nullopt;
  }

  std::span<const Plan> plans_;
  const Plan& model_;
  const MachineOptions options_;
  std::mt19937 random_;
  std::vector<LaneState> lanes_;
  std::vector<std::vector<Maps>> scratch_;             // per rank
  std::vector<std::vector<Windows>> windows_;          // per pass of a call, per rank
  std::vector<std::vector<std::vector<Maps>>> given_;  // what the send buffers hold when the call begins
  std::vector<size_t> begun_;                          // calls, per rank
  std::vector<size_t> ended_;
  // What the caller left in its buffers after the call.
  std::vector<std::tuple<size_t, Rank, std::vector<Maps>, std::vector<Maps>>> left_;
  std::map<std::tuple<Rank, Rank, size_t>, std::deque<Maps>> pipes_;
  std::optional<std::string> fault_;
};

}  // namespace

std::optional<std::string> run_on_numbers(std::span<const Plan> plans, const MachineOptions& options) {
  return Machine(plans, options).run();
}

}  // namespace hocket::testing_machine
