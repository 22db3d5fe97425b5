// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "simulate/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace hocket::simulate {

int64_t Program::extent(const Step& step, int64_t pass) const {
  const int64_t begin = pass * shape.window_bytes;
  const auto in_window = [&](int64_t length) { return std::clamp<int64_t>(length - begin, 0, shape.window_bytes); };
  return step.full_chunks * in_window(full_bytes) + step.cut_chunks * in_window(cut_bytes);
}

ProgramMaker::ProgramMaker(int32_t ranks)
    : sending_to_(static_cast<size_t>(ranks)), receiving_from_(static_cast<size_t>(ranks)) {}

void ProgramMaker::begin_rank() {
  ++rank_;
  program_.first_lane_.push_back(static_cast<uint32_t>(program_.lanes_.size()));
}

void ProgramMaker::begin_lane() {
  const auto number = static_cast<int32_t>(program_.lanes_.size() - program_.first_lane_.back());
  program_.lanes_.push_back({rank_, number, static_cast<uint32_t>(program_.steps_.size()), 0});
}

Program::Step& ProgramMaker::begin_step() {
  ++program_.lanes_.back().steps;
  Program::Step& step = program_.steps_.emplace_back();
  step.first_message = static_cast<uint32_t>(program_.messages_.size());
  step.first_after = static_cast<uint32_t>(program_.afters_.size());
  return step;
}

uint32_t ProgramMaker::end_of(const End& end, Known& known) {
  if (known.lane != end.lane || known.channel != end.channel) {
    known = {end.lane, end.channel, static_cast<uint32_t>(ends_.size())};
    ends_.push_back(end);
  }
  return known.end;
}

void ProgramMaker::receive(int32_t from, int32_t channel) {
  const auto lane = static_cast<uint32_t>(program_.lanes_.size() - 1);
  ++program_.steps_.back().receives;
  program_.messages_.push_back(end_of({from, rank_, channel, lane, true}, receiving_from_[static_cast<size_t>(from)]));
}

void ProgramMaker::send(int32_t to, int32_t channel) {
  const auto lane = static_cast<uint32_t>(program_.lanes_.size() - 1);
  ++program_.steps_.back().sends;
  program_.messages_.push_back(end_of({rank_, to, channel, lane, false}, sending_to_[static_cast<size_t>(to)]));
}

void ProgramMaker::wait_for(uint32_t lane, uint32_t step) {
  ++program_.steps_.back().after_count;
  program_.afters_.push_back({program_.first_lane_.back() + lane, step});
}

Status ProgramMaker::join(const End& sender, const End& receiver) {
  const auto key = [](const End& end) { return std::tuple(end.from, end.to, end.channel); };
  if (key(sender) == key(receiver) && !sender.receiving && receiver.receiving) return {};
  const End& lonely = sender;
  return {Code::kInvalidArgument,
          lonely.receiving ? fmt::format("rank {} receives from rank {} on channel {}, where nothing is sent",
                                         lonely.to, lonely.from, lonely.channel)
                           : fmt::format("rank {} sends to rank {} on channel {}, where nothing is received",
                                         lonely.from, lonely.to, lonely.channel)};
}

Result<Program> ProgramMaker::finish() {
  program_.first_lane_.push_back(static_cast<uint32_t>(program_.lanes_.size()));
  std::vector<uint32_t> order(ends_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto key = [](const End& end) { return std::tuple(end.from, end.to, end.channel, end.receiving); };
    return key(ends_[a]) < key(ends_[b]);
  });
  std::vector<uint32_t> pipe_of(ends_.size());
  for (size_t i = 0; i < order.size(); i += 2) {
    const End& sender = ends_[order[i]];
    const End& receiver = ends_[order[std::min(i + 1, order.size() - 1)]];
    HOCKET_TRY(join(sender, receiver));
    pipe_of[order[i]] = pipe_of[order[i + 1]] = static_cast<uint32_t>(program_.pipes_.size());
    program_.pipes_.push_back({sender.lane, receiver.lane});
  }
  for (uint32_t& message : program_.messages_) message = pipe_of[message];
  return std::move(program_);
}

}  // namespace hocket::simulate
