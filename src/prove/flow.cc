// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "prove/flow.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::proving {
namespace {

// Steps that share a message pass it together, and so do all that are joined by messages in this way.
class Rendezvous {
 public:
  explicit Rendezvous(const Network& network)
      : network_(network), done_(network.lanes().size(), 0), joined_(network.lanes().size(), false) {}

  bool run() {
    for (size_t lane = 0; lane < done_.size(); ++lane) ready_.push_back(lane);
    while (!ready_.empty()) {
      const size_t lane = ready_.back();
      ready_.pop_back();
      if (gather(lane)) pass();
      for (const size_t member : group_) joined_[member] = false;
      group_.clear();
    }
    for (size_t lane = 0; lane < done_.size(); ++lane) {
      if (done_[lane] < network_.lanes()[lane].steps) return false;
    }
    return true;
  }

 private:
  bool is_posted(size_t lane) const {
    const Network::Lane& here = network_.lanes()[lane];
    if (done_[lane] == here.steps) return false;
    return std::ranges::all_of(network_.step(here, done_[lane]).after, [&](const After& after) {
      return done_[network_.lane_of(here.rank, after.lane)] > static_cast<size_t>(after.step);
    });
  }

  bool join(size_t lane) {
    if (joined_[lane]) return true;
    if (!is_posted(lane)) return false;
    joined_[lane] = true;
    group_.push_back(lane);
    return true;
  }

  // Fills the group of lanes whose steps must pass together; false when one of them is not there yet.
  bool gather(size_t lane) {
    if (!join(lane)) return false;
    for (size_t next = 0; next < group_.size(); ++next) {
      const size_t member = group_[next];
      const Network::Lane& here = network_.lanes()[member];
      for (const uint32_t pipe : network_.received(here, done_[member])) {
        const size_t sender = network_.pipes()[pipe].sender;
        if (!join(sender) || !names(network_.sent(network_.lanes()[sender], done_[sender]), pipe)) return false;
      }
      for (const uint32_t pipe : network_.sent(here, done_[member])) {
        const size_t receiver = network_.pipes()[pipe].receiver;
        if (!join(receiver) || !names(network_.received(network_.lanes()[receiver], done_[receiver]), pipe))
          return false;
      }
    }
    return true;
  }

  static bool names(std::span<const uint32_t> pipes, uint32_t pipe) {
    return std::ranges::find(pipes, pipe) != pipes.end();
  }

  void pass() {
    for (const size_t member : group_) ++done_[member];
    for (const size_t member : group_) {
      const Rank rank = network_.lanes()[member].rank;
      const size_t first = network_.lane_of(rank, 0);
      for (size_t lane = first; lane < first + network_.lanes_of(rank); ++lane) ready_.push_back(lane);
    }
  }

  const Network& network_;
  std::vector<size_t> done_;
  std::vector<bool> joined_;
  std::vector<size_t> group_;
  std::vector<size_t> ready_;
};

}  // namespace

Status check_ends(const Network& network) {
  Run run(network, Run::kUnbounded);
  if (!run.go([](size_t, size_t, size_t) { return true; })) return {Code::kInternal, "deadlock: " + run.waits()};
  const size_t pipe = run.leftover();
  if (pipe == Run::kNone) return {};
  const Network::Lane& sender = network.lanes()[network.pipes()[pipe].sender];
  const Network::Lane& receiver = network.lanes()[network.pipes()[pipe].receiver];
  return {Code::kInternal, fmt::format("rank {} lane {} sends a message that rank {} never receives", sender.rank,
                                       sender.number, receiver.rank)};
}

Result<int32_t> least_depth(const Network& network, int32_t declared) {
  for (int32_t depth = 1; depth <= declared; ++depth) {
    Run run(network, depth);
    if (run.go([](size_t, size_t, size_t) { return true; })) return depth;
    if (depth < declared) continue;
    return Status(Code::kInternal, fmt::format("pipes that hold {} message{} are too short: {}", depth,
                                               depth == 1 ? "" : "s", run.waits()));
  }
  return Status(Code::kInternal, fmt::format("depth {} is declared", declared));
}

bool works_rendezvous(const Network& network) { return Rendezvous(network).run(); }

int32_t count_rounds(const Network& network) {
  struct Queue {
    std::vector<int32_t> arrivals;
    size_t taken = 0;
  };
  std::vector<Queue> queues(network.pipes().size());
  std::vector<int32_t> ended(network.steps(), 0);  // messages before the end of each step
  Run run(network, Run::kUnbounded);
  run.go([&](size_t lane, size_t step, size_t) {
    const Network::Lane& here = network.lanes()[lane];
    int32_t now = step > 0 ? ended[here.first_step + step - 1] : 0;
    for (const uint32_t pipe : network.received(here, step))
      now = std::max(now, queues[pipe].arrivals[queues[pipe].taken++]);
    for (const After& after : network.step(here, step).after) {
      const Network::Lane& awaited = network.lanes()[network.lane_of(here.rank, after.lane)];
      now = std::max(now, ended[awaited.first_step + static_cast<size_t>(after.step)]);
    }
    for (const uint32_t pipe : network.sent(here, step)) queues[pipe].arrivals.push_back(now + 1);
    ended[here.first_step + step] = now;
    return true;
  });
  return ended.empty() ? 0 : *std::ranges::max_element(ended);
}

}  // namespace hocket::proving
