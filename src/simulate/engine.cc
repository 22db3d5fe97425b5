// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "simulate/engine.h"

#include <algorithm>

namespace hocket::simulate {

Outcome simulate(const Program& program, const Fabric& fabric, const SimulateOptions& options) {
  return Engine(program, fabric, options).run();
}

Picoseconds Outcome::per_call() const {
  if (call_ends.empty()) return 0;
  if (call_ends.size() == 1) return call_ends[0];
  return (call_ends.back() - call_ends[0]) / static_cast<Picoseconds>(call_ends.size() - 1);
}

Engine::Engine(const Program& program, const Fabric& fabric, const SimulateOptions& options)
    : program_(program),
      fabric_(fabric),
      options_(options),
      cores_(fabric, program.ranks()),
      lanes_(program.lanes().size()),
      pipes_(program.pipes().size()),
      ranks_(static_cast<size_t>(program.ranks())),
      links_(fabric.links()),
      ended_calls_(static_cast<size_t>(options.calls), 0) {
  for (LinkId link = 0; link < fabric.links(); ++link) {
    links_[link].byte = fabric.wire_byte(link);
    links_[link].incast = fabric.incast(link);
    if (links_[link].incast > 0) links_[link].queue = std::make_unique<Queue>();
  }
  outcome_.links.resize(links_.size());
  apply(options.faults);
}

void Engine::apply(const Faults& faults) {
  std::vector<Picoseconds> begins(ranks_.size(), fabric_.local().call);
  for (const SlowLink& fault : faults.slow_links) {
    links_[fault.link].byte = scaled(links_[fault.link].byte, fault.times, 1);
  }
  for (const LostLink& fault : faults.lost_links) links_[fault.link].lost_at = fault.at;
  for (const LateRank& fault : faults.late_ranks) {
    begins[static_cast<size_t>(fault.rank)] = later(begins[static_cast<size_t>(fault.rank)], fault.by);
  }
  for (const DeadRank& fault : faults.dead_ranks) {
    events_.push({.time = fault.at, .subject = static_cast<uint32_t>(fault.rank), .kind = Event::Kind::kDie});
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    events_.push({.time = begins[rank], .subject = static_cast<uint32_t>(rank), .kind = Event::Kind::kBegin});
  }
}

Outcome Engine::run() {
  while (!events_.empty()) {
    const Event event = events_.pop();
    now_ = event.time;
    handle(event);
  }
  outcome_.end = outcome_.call_ends.empty() ? now_ : outcome_.call_ends.back();
  outcome_.finished = outcome_.call_ends.size() == static_cast<size_t>(options_.calls);
  if (!outcome_.finished) {
    outcome_.end = now_;
    outcome_.stuck = stuck();
  }
  return std::move(outcome_);
}

void Engine::handle(const Event& event) {
  const auto rank = static_cast<int32_t>(event.subject);
  switch (event.kind) {
    case Event::Kind::kBegin:
      return begin_call(rank);
    case Event::Kind::kFinish:
      return finish_slice(rank, event.bytes);
    case Event::Kind::kDie:
      return die(rank);
    case Event::Kind::kHop:
      return hop(event.subject, event.hop, event.bytes, event.tail);
    case Event::Kind::kArrive:
      return arrive(event.subject);
    case Event::Kind::kCredit:
      return credit(event.subject);
  }
}

// ---- Ranks ----------------------------------------------------------------------------------------------------------

void Engine::begin_call(int32_t rank) {
  RankState& state = ranks_[static_cast<size_t>(rank)];
  if (state.dead) return;
  state.in_call = true;
  state.open_lanes = 0;
  for (uint32_t lane = program_.lanes_begin(rank); lane < program_.lanes_end(rank); ++lane) {
    lanes_[lane].pass = program_.lanes()[lane].steps > 0 ? 0 : program_.passes;
    if (ended(lanes_[lane])) continue;
    ++state.open_lanes;
    wake(lane);
  }
  if (state.open_lanes == 0) return end_call(rank);
  go_on(rank);
}

void Engine::end_call(int32_t rank) {
  RankState& state = ranks_[static_cast<size_t>(rank)];
  state.in_call = false;
  const auto call = static_cast<size_t>(state.calls++);
  if (++ended_calls_[call] == program_.ranks()) outcome_.call_ends.push_back(now_);
  if (state.calls == options_.calls) return;
  events_.push(
      {.time = later(now_, fabric_.local().call), .subject = static_cast<uint32_t>(rank), .kind = Event::Kind::kBegin});
}

void Engine::die(int32_t rank) {
  ranks_[static_cast<size_t>(rank)].dead = true;
  const int32_t next = cores_.leave(rank);
  if (next >= 0) go_on(next);
}

void Engine::wake(uint32_t lane) {
  LaneState& state = lanes_[lane];
  if (state.queued) return;
  state.queued = true;
  state.next = kNone;
  RankState& rank = ranks_[static_cast<size_t>(program_.lanes()[lane].rank)];
  if (rank.first == kNone) {
    rank.first = lane;
  } else {
    lanes_[rank.last].next = lane;
  }
  rank.last = lane;
}

// Begins the next slice of the first lane that can go on.
void Engine::go_on(int32_t rank) {
  RankState& state = ranks_[static_cast<size_t>(rank)];
  if (state.working || state.dead || !state.in_call) return;
  while (state.first != kNone) {
    const uint32_t lane = state.first;
    if (ready(lane)) {
      const std::optional<Picoseconds> turn = cores_.take(rank);
      if (!turn.has_value()) return;
      const int64_t bytes = std::min(lanes_[lane].extent - lanes_[lane].done, program_.shape.slice_bytes);
      const Picoseconds begin = later(now_, *turn);
      const Picoseconds end = later(begin, start_slice(lane, bytes));
      if (options_.observer != nullptr) {
        options_.observer->on_slice(program_.lanes()[lane], lanes_[lane].step, begin, end, bytes);
      }
      state.working = true;
      events_.push({.time = end, .bytes = bytes, .subject = static_cast<uint32_t>(rank), .kind = Event::Kind::kFinish});
      return;
    }
    state.first = lanes_[lane].next;
    lanes_[lane].queued = false;
  }
  if (state.open_lanes == 0) end_call(rank);
  const int32_t next = cores_.leave(rank);
  if (next >= 0) go_on(next);
}

// ---- Lanes ----------------------------------------------------------------------------------------------------------

bool Engine::ready(uint32_t lane) {
  LaneState& state = lanes_[lane];
  while (!ended(state)) {
    if (!state.entered && !enter_step(lane)) return false;
    // A message without bytes is sent once, in the first pass.
    if (state.extent > 0 || state.pass == 0) return messages_ready(lane);
    leave_step(lane);
  }
  return false;
}

bool Engine::enter_step(uint32_t lane) {
  LaneState& state = lanes_[lane];
  const Program::Step& step = program_.step(program_.lanes()[lane], state.step);
  for (const Program::After& after : program_.afters(step)) {
    LaneState& other = lanes_[after.lane];
    if (other.pass > state.pass || (other.pass == state.pass && other.step > after.step)) continue;
    state.next_waiter = kNone;
    (other.first_waiter == kNone ? other.first_waiter : lanes_[other.last_waiter].next_waiter) = lane;
    other.last_waiter = lane;
    return false;
  }
  state.extent = program_.extent(step, state.pass);
  state.done = 0;
  state.checked = 0;
  state.entered = true;
  return true;
}

// As the executor: first the messages that come, then room for those that go.
bool Engine::messages_ready(uint32_t lane) {
  LaneState& state = lanes_[lane];
  const Program::Step& step = program_.step(program_.lanes()[lane], state.step);
  for (const auto received = program_.received(step); state.checked < received.size(); ++state.checked) {
    PipeState& pipe = pipes_[received[state.checked]];
    pipe.receiver_waits = pipe.arrived == 0;
    if (pipe.receiver_waits) return false;
  }
  for (const auto sent = program_.sent(step); state.checked < step.receives + sent.size(); ++state.checked) {
    PipeState& pipe = pipes_[sent[state.checked - step.receives]];
    pipe.sender_waits = pipe.held >= program_.shape.pipe_depth;
    if (pipe.sender_waits) return false;
  }
  return true;
}

void Engine::leave_step(uint32_t lane) {
  LaneState& state = lanes_[lane];
  const Program::Lane& here = program_.lanes()[lane];
  state.entered = false;
  if (++state.step == here.steps) {
    state.step = 0;
    ++state.pass;
    if (ended(state)) --ranks_[static_cast<size_t>(here.rank)].open_lanes;
  }
  for (uint32_t waiter = state.first_waiter; waiter != kNone; waiter = lanes_[waiter].next_waiter) wake(waiter);
  state.first_waiter = kNone;
}

// ---- Slices ---------------------------------------------------------------------------------------------------------

Picoseconds Engine::start_slice(uint32_t lane, int64_t bytes) const {
  const Program::Step& step = program_.step(program_.lanes()[lane], lanes_[lane].step);
  const LocalCost& local = fabric_.local();
  Picoseconds fixed = local.step + step.work;
  Femtoseconds byte = local.place_byte * (step.read_chunks + step.written_chunks);
  const int sources = step.read_chunks + step.receives;
  if (sources > 1) byte += local.combine_byte * (sources - 1);
  for (const uint32_t pipe : program_.received(step)) {
    fixed += cost(pipe).receive;
    byte += cost(pipe).receive_byte;
  }
  for (const uint32_t pipe : program_.sent(step)) {
    fixed += cost(pipe).send;
    byte += cost(pipe).send_byte;
  }
  return later(fixed, scaled(bytes, byte, kFemtosecondsPerPicosecond));
}

// The lane at the head of the rank's queue has done a slice.
void Engine::finish_slice(int32_t rank, int64_t bytes) {
  RankState& state = ranks_[static_cast<size_t>(rank)];
  if (state.dead) return;
  const uint32_t lane = state.first;
  LaneState& own = lanes_[lane];
  const Program::Step& step = program_.step(program_.lanes()[lane], own.step);
  ++outcome_.slices;
  for (const uint32_t pipe : program_.sent(step)) depart(pipe, bytes);
  for (const uint32_t pipe : program_.received(step)) release(pipe);
  own.done += bytes;
  own.checked = 0;
  if (own.done == own.extent) leave_step(lane);
  state.working = false;
  go_on(rank);
}

}  // namespace hocket::simulate
