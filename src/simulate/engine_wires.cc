// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pipes and links of a run, and who waits for whom when it does not end.
#include <fmt/format.h>

#include <algorithm>

#include "simulate/engine.h"

namespace hocket::simulate {

void Engine::Queue::add(int32_t sender, Picoseconds end) {
  senders[next] = sender;
  ends[next] = end;
  next = (next + 1) % kLength;
}

int64_t Engine::Queue::senders_at(Picoseconds time, int32_t sender) const {
  int64_t count = 1;
  for (size_t i = 0; i < kLength; ++i) {
    if (ends[i] <= time || senders[i] == sender) continue;
    const auto is_same = [&](size_t other) { return ends[other] > time && senders[other] == senders[i]; };
    bool is_first = true;
    for (size_t other = 0; other < i && is_first; ++other) is_first = !is_same(other);
    count += is_first ? 1 : 0;
  }
  return count;
}

Picoseconds Engine::carry(LinkState& link, int32_t from, int64_t bytes) {
  Picoseconds time = scaled(bytes, link.byte, kFemtosecondsPerPicosecond);
  if (link.queue == nullptr) return time;
  const int64_t many = link.queue->senders_at(now_, from);
  time = later(time, scaled(scaled(time, link.incast, 1000), many - 1, many));
  link.queue->add(from, later(std::max(now_, link.free_at), time));
  return time;
}

const MessageCost& Engine::cost(uint32_t pipe) const { return fabric_.cost(sender(pipe), receiver(pipe)); }

void Engine::depart(uint32_t pipe, int64_t bytes) {
  ++outcome_.messages;
  PipeState& state = pipes_[pipe];
  ++state.held;
  // The head goes out at once, the end when the connection has carried all before it.
  state.free_at = later(std::max(now_, state.free_at), scaled(bytes, cost(pipe).flow_byte, kFemtosecondsPerPicosecond));
  hop(pipe, 0, bytes, state.free_at);
}

// The head of the message is at its route's link `hop`; its end has passed the one before at `tail`. The head goes on
// at once, the end follows at the rate of the slowest link so far.
void Engine::hop(uint32_t pipe, int hop, int64_t bytes, Picoseconds tail) {
  const int32_t from = sender(pipe);
  const int32_t to = receiver(pipe);
  const int hops = fabric_.hops(from, to);
  Picoseconds head = now_;
  if (hop < hops) {
    const LinkId id = fabric_.link_at(from, to, hop);
    LinkState& link = links_[id];
    if (now_ >= link.lost_at) return;
    head = std::max(now_, link.free_at);
    link.free_at = later(head, carry(link, from, bytes));
    tail = std::max(tail, link.free_at);
    outcome_.links[id].busy += link.free_at - head;
    outcome_.links[id].bytes += bytes;
    if (options_.observer != nullptr) options_.observer->on_link(id, head, link.free_at, bytes);
  }
  if (hop + 1 < hops) {
    events_.push({.time = head,
                  .bytes = bytes,
                  .tail = tail,
                  .subject = pipe,
                  .kind = Event::Kind::kHop,
                  .hop = static_cast<uint8_t>(hop + 1)});
  } else {
    events_.push({.time = later(tail, cost(pipe).latency), .subject = pipe, .kind = Event::Kind::kArrive});
  }
}

void Engine::arrive(uint32_t pipe) {
  PipeState& state = pipes_[pipe];
  ++state.arrived;
  if (!state.receiver_waits) return;
  state.receiver_waits = false;
  wake(program_.pipes()[pipe].receiver);
  go_on(receiver(pipe));
}

// A slot is free at once for a sender that has others; it takes a message to tell one that has none.
void Engine::release(uint32_t pipe) {
  PipeState& state = pipes_[pipe];
  --state.arrived;
  if (state.held < program_.shape.pipe_depth) {
    --state.held;
  } else {
    events_.push({.time = later(now_, cost(pipe).latency), .subject = pipe, .kind = Event::Kind::kCredit});
  }
}

void Engine::credit(uint32_t pipe) {
  PipeState& state = pipes_[pipe];
  --state.held;
  if (!state.sender_waits) return;
  state.sender_waits = false;
  wake(program_.pipes()[pipe].sender);
  go_on(sender(pipe));
}

// ---- Who waits ------------------------------------------------------------------------------------------------------

std::vector<std::string> Engine::stuck() const {
  std::vector<std::string> lines;
  for (size_t rank = 0; rank < ranks_.size() && lines.size() < kMaxStuck; ++rank) {
    if (ranks_[rank].dead) lines.push_back(fmt::format("rank {} is dead", rank));
  }
  for (uint32_t lane = 0; lane < lanes_.size() && lines.size() < kMaxStuck; ++lane) {
    const RankState& rank = ranks_[static_cast<size_t>(program_.lanes()[lane].rank)];
    if (rank.in_call && !rank.dead && !ended(lanes_[lane])) lines.push_back(wait_of(lane));
  }
  return lines;
}

std::string Engine::wait_of(uint32_t lane) const {
  const LaneState& state = lanes_[lane];
  const Program::Lane& here = program_.lanes()[lane];
  const Program::Step& step = program_.step(here, state.step);
  std::string where = fmt::format("rank {} lane {} step {} waits for ", here.rank, here.number, state.step);
  if (!state.entered) return where + "another lane";
  if (state.checked < step.receives) {
    return where + fmt::format("a message from rank {}", sender(program_.received(step)[state.checked]));
  }
  return where +
         fmt::format("room in the pipe to rank {}", receiver(program_.sent(step)[state.checked - step.receives]));
}

}  // namespace hocket::simulate
