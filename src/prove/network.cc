// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "prove/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace hocket::proving {

class NetworkMaker {
 public:
  explicit NetworkMaker(std::span<const Plan> plans) { network_.plans_ = plans; }

  Result<Network> run() {
    number_lanes();
    for (size_t lane = 0; lane < network_.lanes_.size(); ++lane) {
      for (size_t step = 0; step < network_.lanes_[lane].steps; ++step) HOCKET_TRY(number_pipes(lane, step));
    }
    return std::move(network_);
  }

 private:
  void number_lanes() {
    size_t steps = 0;
    for (const Plan& plan : network_.plans_) {
      network_.first_lane_.push_back(network_.lanes_.size());
      for (size_t number = 0; number < plan.lanes.size(); ++number) {
        network_.lanes_.push_back({plan.rank, static_cast<int32_t>(number), steps, plan.lanes[number].steps.size()});
        steps += plan.lanes[number].steps.size();
      }
    }
    network_.received_.resize(steps);
    network_.sent_.resize(steps);
  }

  Status number_pipes(size_t lane, size_t step) {
    const Network::Lane& here = network_.lanes_[lane];
    const Step& code = network_.step(here, step);
    auto& received = network_.received_[here.first_step + step];
    received.begin = network_.pipe_numbers_.size();
    for (const Place& place : code.sources) HOCKET_TRY(number_pipe(lane, step, place, false));
    received.size = network_.pipe_numbers_.size() - received.begin;
    auto& sent = network_.sent_[here.first_step + step];
    sent.begin = network_.pipe_numbers_.size();
    for (const Place& place : code.destinations) HOCKET_TRY(number_pipe(lane, step, place, true));
    sent.size = network_.pipe_numbers_.size() - sent.begin;
    return {};
  }

  Status number_pipe(size_t lane, size_t step, const Place& place, bool outgoing) {
    if (place.kind != Place::Kind::kMessage) return {};
    const Network::Lane& here = network_.lanes_[lane];
    if (static_cast<size_t>(here.number) >= network_.lanes_of(place.peer)) {
      return {Code::kInternal,
              fmt::format("{}: rank {} has no lane {}", Network::where(here, step), place.peer, here.number)};
    }
    const size_t there = network_.lane_of(place.peer, here.number);
    const Network::Pipe pipe = outgoing ? Network::Pipe{lane, there} : Network::Pipe{there, lane};
    const auto next = static_cast<uint32_t>(network_.pipes_.size());
    const auto [entry, is_new] = numbers_.try_emplace(pipe.sender * network_.lanes_.size() + pipe.receiver, next);
    if (is_new) network_.pipes_.push_back(pipe);
    network_.pipe_numbers_.push_back(entry->second);
    return {};
  }

  Network network_;
  std::unordered_map<size_t, uint32_t> numbers_;  // by sender and receiver
};

Result<Network> Network::make(std::span<const Plan> plans) { return NetworkMaker(plans).run(); }

std::string Network::where(const Lane& lane, size_t step) {
  return fmt::format("rank {} lane {} step {}", lane.rank, lane.number, step);
}

Run::Run(const Network& network, int64_t depth, int passes)
    : network_(network),
      depth_(depth),
      passes_(static_cast<size_t>(passes)),
      done_(network.lanes().size(), 0),
      held_(network.pipes().size(), 0),
      queued_(network.lanes().size(), false) {
  for (size_t lane = network.lanes().size(); lane-- > 0;) wake(lane);
}

void Run::wake(size_t lane) {
  if (queued_[lane]) return;
  queued_[lane] = true;
  ready_.push_back(lane);
}

bool Run::can_go(size_t lane) const {
  const Network::Lane& here = network_.lanes()[lane];
  if (done_[lane] == here.steps * passes_) return false;
  const size_t step = done_[lane] % here.steps;
  for (const uint32_t pipe : network_.received(here, step)) {
    if (held_[pipe] == 0) return false;
  }
  for (const uint32_t pipe : network_.sent(here, step)) {
    if (held_[pipe] >= depth_) return false;
  }
  return waits_are_over(lane);
}

bool Run::waits_are_over(size_t lane) const {
  const Network::Lane& here = network_.lanes()[lane];
  const size_t pass = done_[lane] / here.steps;
  return std::ranges::all_of(network_.step(here, done_[lane] % here.steps).after, [&](const After& after) {
    const size_t awaited = network_.lane_of(here.rank, after.lane);
    return done_[awaited] > pass * network_.lanes()[awaited].steps + static_cast<size_t>(after.step);
  });
}

void Run::complete(size_t lane) {
  const Network::Lane& here = network_.lanes()[lane];
  const size_t step = done_[lane]++ % here.steps;
  for (const uint32_t pipe : network_.received(here, step)) {
    if (held_[pipe]-- >= depth_) wake(network_.pipes()[pipe].sender);
  }
  for (const uint32_t pipe : network_.sent(here, step)) {
    backlog_ = std::max(backlog_, ++held_[pipe]);
    wake(network_.pipes()[pipe].receiver);
  }
  const size_t first = network_.lane_of(here.rank, 0);
  for (size_t other = first; other < first + network_.lanes_of(here.rank); ++other) {
    const Network::Lane& there = network_.lanes()[other];
    if (other == lane || done_[other] == there.steps * passes_) continue;
    if (!network_.step(there, done_[other] % there.steps).after.empty()) wake(other);
  }
}

size_t Run::leftover() const {
  const auto found = std::ranges::find_if(held_, [](int64_t held) { return held > 0; });
  return found == held_.end() ? kNone : static_cast<size_t>(found - held_.begin());
}

size_t Run::stuck_lane() const {
  for (size_t lane = 0; lane < done_.size(); ++lane) {
    if (done_[lane] < network_.lanes()[lane].steps * passes_) return lane;
  }
  return kNone;
}

std::string Run::wait_of(size_t lane, size_t* blocker) const {
  const Network::Lane& here = network_.lanes()[lane];
  const size_t step = done_[lane] % here.steps;
  for (const uint32_t pipe : network_.received(here, step)) {
    if (held_[pipe] > 0) continue;
    *blocker = network_.pipes()[pipe].sender;
    return fmt::format("waits for a message from rank {}", network_.lanes()[*blocker].rank);
  }
  for (const uint32_t pipe : network_.sent(here, step)) {
    if (held_[pipe] < depth_) continue;
    *blocker = network_.pipes()[pipe].receiver;
    return fmt::format("waits for room in the pipe to rank {}", network_.lanes()[*blocker].rank);
  }
  for (const After& after : network_.step(here, step).after) {
    *blocker = network_.lane_of(here.rank, after.lane);
    if (done_[*blocker] <= static_cast<size_t>(after.step))
      return fmt::format("waits for step {}.{}", after.lane, after.step);
  }
  return "could go on";
}

std::string Run::waits() const {
  constexpr int kShown = 6;
  std::string out;
  std::vector<size_t> seen;
  for (size_t lane = stuck_lane(); lane != kNone && seen.size() < kShown;) {
    const Network::Lane& here = network_.lanes()[lane];
    if (done_[lane] == here.steps * passes_)
      return out + fmt::format(", which has ended (rank {} lane {})", here.rank, here.number);
    if (!out.empty()) out += ", ";
    if (std::ranges::find(seen, lane) != seen.end())
      return out + fmt::format("and so on around: rank {} lane {} again", here.rank, here.number);
    seen.push_back(lane);
    size_t blocker = kNone;
    const std::string wait = wait_of(lane, &blocker);
    out += fmt::format("{} {}", Network::where(here, done_[lane] % here.steps), wait);
    lane = blocker;
  }
  return out;
}

}  // namespace hocket::proving
