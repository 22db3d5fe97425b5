// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/fast_path.h"

#include <algorithm>
#include <array>

namespace hocket {
namespace {

// Messages shorter than this take none of the pipes' shortcuts, which are the execution's business.
constexpr size_t kShort = 4 << 10;
// Work within memory need not be short, but it is not interrupted.
constexpr size_t kUninterrupted = 1 << 20;

// How often a message is waited for, in the units of Wait::Advice::kLook, before the execution looks for failures.
constexpr int kMostIdle = 32;

constexpr Window kWhole{0, SIZE_MAX};

const Layout& layout(const Call& call, const Place& place) {
  return place.buffer == Buffer::kSend ? call.send : call.recv;
}

size_t bytes_of(const Call& call, const Step& step) {
  for (const auto* places : {&step.sources, &step.destinations}) {
    for (const Place& place : *places) {
      if (!is_message(place)) return only_range(layout(call, place), place, kWhole).length * element_bytes(call.type);
    }
  }
  return 0;
}

bool suits(const Call& call) {
  const Plan& plan = *call.plan;
  if (plan.lanes.size() != 1 || plan.scratch_chunks > 0) return false;
  if (call.codec != nullptr || call.scale != nullptr || call.user != nullptr) return false;
  if (std::max(call.send.longest_chunk(), call.recv.longest_chunk()) > call.window) return false;
  const size_t limit = std::min(kShort, call.slice_bytes + 1);
  return std::all_of(plan.lanes[0].steps.begin(), plan.lanes[0].steps.end(), [&](const Step& step) {
    return is_contiguous(step) && bytes_of(call, step) < (has_message(step) ? limit : kUninterrupted);
  });
}

// The memory that a place of a step names.
template <typename Point>
Point memory(const Call& call, const Place& place) {
  Point point;
  point.buffer = place.buffer;
  point.offset = only_range(layout(call, place), place, kWhole).offset * element_bytes(call.type);
  if (place.kind == Place::Kind::kWindow) point.window = call.window_base(place);
  return point;
}

}  // namespace

FastPath::FastPath(const Call& call, Pipes& pipes) {
  if (!suits(call)) return;
  for (const Step& step : call.plan->lanes[0].steps) moves_.push_back(bind(call, step, pipes));
}

FastPath::Move FastPath::bind(const Call& call, const Step& step, Pipes& pipes) {
  Move move;
  for (const Place& place : step.sources) {
    if (place.first && call.has_prologue()) move.work.first_mask |= uint64_t{1} << move.sources.size();
    move.sources.push_back(is_message(place) ? Point<ReceiveEnd>{&pipes.from(place.peer, 0)}
                                             : memory<Point<ReceiveEnd>>(call, place));
  }
  for (const Place& place : step.destinations) {
    move.destinations.push_back(is_message(place) ? Point<SendEnd>{&pipes.to(place.peer, 0)}
                                                  : memory<Point<SendEnd>>(call, place));
  }
  move.bytes = bytes_of(call, step);
  move.work.type = call.type;
  move.work.op = call.op;
  move.work.count = move.bytes / element_bytes(call.type);
  move.work.divide_last = step.last ? call.divide : 0;
  return move;
}

bool FastPath::run(const void* send, void* recv, uint32_t operation, Wait* wait) {
  if (!bound()) return false;
  const Buffers buffers{const_cast<std::byte*>(static_cast<const std::byte*>(send)), static_cast<std::byte*>(recv)};
  for (reached_ = 0; reached_ < moves_.size(); ++reached_) {
    if (!run_move(moves_[reached_], buffers, operation, wait)) return false;
  }
  for (const Move& move : moves_) {
    for (const auto& to : move.destinations) {
      if (to.end != nullptr && !to.end->pipe->flushed()) return false;
    }
  }
  return true;
}

bool FastPath::run_move(const Move& move, const Buffers& buffers, uint32_t operation, Wait* wait) const {
  std::array<const std::byte*, kMaxSources> sources;
  std::array<std::byte*, kMaxDestinations> destinations;
  for (size_t i = 0; i < move.sources.size(); ++i) {
    const auto& from = move.sources[i];
    if (from.end == nullptr) {
      sources[i] = buffers.at(from);
      continue;
    }
    const Message* message = await(*from.end, move.bytes, operation, wait);
    if (message == nullptr) return false;
    sources[i] = message->data;
  }
  for (size_t i = 0; i < move.destinations.size(); ++i) {
    const auto& to = move.destinations[i];
    if (to.end != nullptr && to.end->pipe == nullptr) return false;
    destinations[i] = to.end == nullptr ? buffers.at(to) : to.end->pipe->reserve(move.bytes);
    if (destinations[i] == nullptr && to.end != nullptr) return false;
  }
  if (move.bytes > 0) combine_at(move, sources.data(), destinations.data());
  for (const auto& to : move.destinations) {
    if (to.end == nullptr) continue;
    const Envelope envelope{operation, to.end->messages++};
    to.end->pipe->commit(move.bytes, envelope);
  }
  for (const auto& from : move.sources) {
    if (from.end == nullptr) continue;
    from.end->pipe->release();
    ++from.end->messages;
  }
  return true;
}

// Null: not there, or not ours; the execution finds out which.
const Message* FastPath::await(const ReceiveEnd& end, size_t bytes, uint32_t operation, Wait* wait) const {
  if (end.pipe == nullptr) return nullptr;
  const Message* message = end.pipe->peek();
  for (int idle = 0; message == nullptr && wait != nullptr && idle < kMostIdle;) {
    if (wait->idle() != Wait::Advice::kAgain) ++idle;
    message = end.pipe->peek();
  }
  const bool is_ours =
      message != nullptr && message->size == bytes && message->digest == Envelope{operation, end.messages}.digest();
  return is_ours ? message : nullptr;
}

void FastPath::combine_at(const Move& move, const std::byte* const* sources, std::byte* const* destinations) {
  const size_t count = move.destinations.size();
  if (move.sources.size() == 1 && move.work.divide_last == 0 && move.work.first_mask == 0) {
    for (size_t i = 0; i < count; ++i) {
      if (destinations[i] != sources[0]) copy(destinations[i], sources[0], move.bytes, false);
    }
    return;
  }
  Combine work = move.work;
  work.sources = {sources, move.sources.size()};
  work.destinations = {destinations, count};
  combine(work);
}

}  // namespace hocket
