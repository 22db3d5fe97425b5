// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/lending.h"

#include <algorithm>
#include <vector>

#include "plan/builders.h"
#include "plan/regions.h"

namespace hocket {
namespace {

// The chunks of both buffers, those that are the same memory under one number.
class Chunks {
 public:
  Chunks(const Plan& plan, bool in_place) : plan_(plan), in_place_(in_place) {}

  size_t count() const { return static_cast<size_t>(plan_.send_chunks) + static_cast<size_t>(plan_.recv_chunks); }

  std::vector<size_t> of(const Place& place) const {
    std::vector<size_t> numbers;
    if (place.kind != Place::Kind::kChunk || place.buffer == Buffer::kScratch) return numbers;
    for_each_chunk(place.regions, chunks_of(plan_, place.buffer),
                   [&](int32_t chunk) { numbers.push_back(number(place.buffer, chunk)); });
    return numbers;
  }

 private:
  size_t number(Buffer buffer, int32_t chunk) const {
    const auto received = static_cast<size_t>(plan_.recv_chunks);
    if (buffer == Buffer::kRecv) return static_cast<size_t>(chunk) + (in_place_ ? own(Buffer::kRecv) : 0);
    return in_place_ ? static_cast<size_t>(chunk) + own(Buffer::kSend) : received + static_cast<size_t>(chunk);
  }

  // Where the smaller buffer lies in the larger one: at this rank's part.
  size_t own(Buffer buffer) const {
    const int32_t mine = chunks_of(plan_, buffer);
    const int32_t all = std::max(plan_.send_chunks, plan_.recv_chunks);
    return mine == all ? 0 : static_cast<size_t>(plan_.rank) * static_cast<size_t>(mine);
  }

  const Plan& plan_;
  const bool in_place_;
};

// Follows one rank's lanes.
class Follower {
 public:
  Follower(const Plan& plan, bool in_place)
      : chunks_(plan, in_place), sent_by_(chunks_.count(), kNoLane), written_by_(chunks_.count(), kNoLane) {}

  // False when the step writes what was sent, or sends what another lane writes.
  bool pass(const Step& step, int lane) {
    const bool sends = std::ranges::any_of(step.destinations, is_message);
    const std::vector<size_t> read = step.sources.size() == 1 ? chunks_.of(step.sources[0]) : std::vector<size_t>{};
    for (const Place& place : step.destinations) {
      if (place.kind == Place::Kind::kWindow) return false;
      const std::vector<size_t> written = chunks_.of(place);
      if (written == read) continue;  // onto itself
      if (!write(written, lane)) return false;
      // What is received and passed on is sent from where it was written.
      if (sends && !send(written, lane)) return false;
    }
    return !sends || send(read, lane);
  }

 private:
  bool write(const std::vector<size_t>& chunks, int lane) {
    for (const size_t chunk : chunks) {
      if (sent_by_[chunk] != kNoLane) return false;
      written_by_[chunk] = lane;
    }
    return true;
  }

  bool send(const std::vector<size_t>& chunks, int lane) {
    for (const size_t chunk : chunks) {
      if (written_by_[chunk] != kNoLane && written_by_[chunk] != lane) return false;
      sent_by_[chunk] = lane;
    }
    return true;
  }

  static constexpr int kNoLane = -1;

  Chunks chunks_;
  std::vector<int> sent_by_;  // by chunk
  std::vector<int> written_by_;
};

}  // namespace

bool may_lend(const Plan& plan, bool in_place) {
  if (is_reducing(plan.collective)) return false;
  Follower follower(plan, in_place);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (const Step& step : plan.lanes[lane].steps) {
      if (!follower.pass(step, static_cast<int>(lane))) return false;
    }
  }
  return true;
}

bool works_beside(const Plan& plan, bool in_place) {
  const auto is_chunk = [](const Place& place) { return place.kind == Place::Kind::kChunk; };
  for (const Lane& lane : plan.lanes) {
    for (const Step& step : lane.steps) {
      if (std::ranges::any_of(step.sources, is_message)) return true;
      if (!in_place && std::ranges::any_of(step.destinations, is_chunk)) return true;
    }
  }
  return false;
}

}  // namespace hocket
