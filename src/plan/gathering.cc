// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/gathering.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

namespace hocket {
namespace {

constexpr int64_t kNever = INT64_MAX;

// Which wires a part may take.
class Tracks {
 public:
  Tracks(Rank ranks, const Attempt& attempt) : ranks_(static_cast<size_t>(ranks)), attempt_(attempt) {
    for (const std::vector<Rank>& ring : attempt.along.rings) {
      std::vector<Rank>& next = next_.emplace_back(ranks_);
      for (size_t place = 0; place < ranks_; ++place) {
        const Rank one = ring[place];
        const Rank other = ring[(place + 1) % ranks_];
        next[static_cast<size_t>(attempt.backwards ? other : one)] = attempt.backwards ? one : other;
      }
    }
    for (const std::vector<Rank>& parents : attempt.along.trees) {
      std::vector<bool>& below = below_.emplace_back(ranks_ * ranks_, false);
      for (Rank rank = 0; rank < ranks; ++rank) {
        for (Rank above = rank; !below[index(above, rank)]; above = parents[static_cast<size_t>(above)])
          below[index(above, rank)] = true;
      }
    }
  }

  bool allow(int32_t part, Rank from, Rank to) const {
    const Rank root = part / attempt_.parts;
    const auto number = static_cast<size_t>(part % attempt_.parts);
    if (to == root) return false;
    if (!next_.empty()) return next_[number % next_.size()][static_cast<size_t>(from)] == to;
    if (below_.empty()) return true;
    const size_t track = number % below_.size();
    const std::vector<Rank>& parents = attempt_.along.trees[track];
    if (parents[static_cast<size_t>(to)] == from) return !below_[track][index(to, root)];
    return parents[static_cast<size_t>(from)] == to && below_[track][index(from, root)];
  }

 private:
  size_t index(Rank above, Rank rank) const { return static_cast<size_t>(above) * ranks_ + static_cast<size_t>(rank); }

  size_t ranks_;
  const Attempt& attempt_;
  std::vector<std::vector<Rank>> next_;   // of every rank, by ring
  std::vector<std::vector<bool>> below_;  // whether a rank is below another, or this one itself; by tree
};

class Gathering {
 public:
  Gathering(Rank ranks, std::span<const Wire> wires, const Attempt& attempt)
      : ranks_(ranks),
        parts_(attempt.parts),
        wires_(wires),
        held_(static_cast<size_t>(ranks) * count(), kNever),
        holders_(count(), 1),
        last_(static_cast<size_t>(ranks) * static_cast<size_t>(ranks), 0),
        idle_(static_cast<size_t>(ranks)) {
    for (int32_t part = 0; part < ranks * parts_; ++part) held(part / parts_, part) = 0;
    int32_t shared = 0;
    for (const Wire& wire : wires) {
      for (const Port& port : wire.ports) shared = std::max(shared, port.number + 1);
    }
    busy_.resize(static_cast<size_t>(shared) + wires.size(), 0);
    waiting_.resize(busy_.size());
    own_port_ = static_cast<size_t>(shared);
    const Tracks tracks(ranks, attempt);
    for (const Wire& wire : wires) offers_.push_back(offered(wire, tracks));
  }

  Result<std::vector<Transfer>> run() {
    for (size_t wire = 0; wire < wires_.size(); ++wire) attempt(wire, 0);
    while (!moments_.empty()) {
      const auto [time, arrives, number] = moments_.top();
      moments_.pop();
      if (arrives) {
        for (const size_t wire : std::exchange(idle_[number], {})) attempt(wire, time);
        continue;
      }
      while (!waiting_[number].empty() && busy_[number] <= time) {
        const size_t wire = waiting_[number].front();
        waiting_[number].pop_front();
        attempt(wire, time);
      }
    }
    for (Rank rank = 0; rank < ranks_; ++rank) {
      for (int32_t part = 0; part < ranks_ * parts_; ++part) {
        if (held(rank, part) == kNever)
          return Status(Code::kInvalidArgument,
                        fmt::format("no wires lead from rank {} to rank {}", part / parts_, rank));
      }
    }
    return std::move(transfers_);
  }

 private:
  size_t count() const { return static_cast<size_t>(ranks_) * static_cast<size_t>(parts_); }
  int64_t& held(Rank rank, int32_t part) {
    return held_[static_cast<size_t>(rank) * count() + static_cast<size_t>(part)];
  }

  // From the wire's own rank on, each rank's first part before all second ones.
  std::vector<int32_t> offered(const Wire& wire, const Tracks& tracks) const {
    std::vector<int32_t> parts;
    for (int32_t i = 0; i < parts_; ++i) {
      for (Rank turn = 0; turn < ranks_; ++turn) {
        const int32_t part = (wire.from + turn) % ranks_ * parts_ + i;
        if (tracks.allow(part, wire.from, wire.to)) parts.push_back(part);
      }
    }
    return parts;
  }

  // The rarest part that one end has by now and the other lacks; of equals the first. -1: none.
  int32_t choose(size_t number, int64_t time) {
    const Wire& wire = wires_[number];
    std::vector<int32_t>& offers = offers_[number];
    std::erase_if(offers, [&](int32_t part) { return held(wire.to, part) != kNever; });
    int32_t best = -1;
    for (const int32_t part : offers) {
      if (held(wire.from, part) > time) continue;
      if (best < 0 || holders_[static_cast<size_t>(part)] < holders_[static_cast<size_t>(best)]) best = part;
    }
    return best;
  }

  // Whoever cannot go waits for a port, or for what may come to where it begins.
  void attempt(size_t number, int64_t time) {
    const Wire& wire = wires_[number];
    const size_t own = own_port_ + number;
    if (busy_[own] > time) return waiting_[own].push_back(number);
    for (const Port& port : wire.ports) {
      const auto shared = static_cast<size_t>(port.number);
      if (busy_[shared] > time) return waiting_[shared].push_back(number);
    }
    const int32_t part = choose(number, time);
    if (part < 0) return idle_[static_cast<size_t>(wire.from)].push_back(number);
    // Messages between two ranks come in the order in which they went, whichever of their wires they took.
    int64_t& last = last_[static_cast<size_t>(wire.from) * static_cast<size_t>(ranks_) + static_cast<size_t>(wire.to)];
    const int64_t end = last = std::max(last, time + of_part(wire.time));
    transfers_.push_back({time, end, wire.from, wire.to, part});
    held(wire.to, part) = end;
    ++holders_[static_cast<size_t>(part)];
    moments_.emplace(end, true, static_cast<size_t>(wire.to));
    occupy(own, end);
    for (const Port& port : wire.ports) occupy(static_cast<size_t>(port.number), time + of_part(port.time));
    // Behind those that wait already: all wires through a port have their turns.
    waiting_[wire.ports.empty() ? own : static_cast<size_t>(wire.ports[0].number)].push_back(number);
  }

  void occupy(size_t port, int64_t until) {
    busy_[port] = until;
    moments_.emplace(until, false, port);
  }

  int64_t of_part(int64_t time) const { return (time * kFine + parts_ - 1) / parts_; }

  // When something comes to a rank, or a port is free again.
  using Moment = std::tuple<int64_t, bool, size_t>;

  Rank ranks_;
  int32_t parts_;
  std::span<const Wire> wires_;
  std::vector<int64_t> held_;                 // since when a rank holds a part, or from when on it will
  std::vector<int32_t> holders_;              // of each part
  std::vector<std::vector<int32_t>> offers_;  // what a wire may still carry
  std::vector<int64_t> last_;                 // when the last part came from one rank to another
  std::vector<std::vector<size_t>> idle_;     // wires, by the rank that they lead from
  std::vector<int64_t> busy_;  // until when, by port; every wire has one of its own behind the shared ones
  std::vector<std::deque<size_t>> waiting_;  // wires, by port
  size_t own_port_ = 0;                      // of the first wire
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_;
  std::vector<Transfer> transfers_;
};

}  // namespace

Result<std::vector<Transfer>> gather(Rank ranks, std::span<const Wire> wires, const Attempt& attempt) {
  return Gathering(ranks, wires, attempt).run();
}

}  // namespace hocket
