// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/write.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace hocket::plan {

Place chunks(Buffer buffer, int32_t first, int32_t block) {
  Place place;
  place.buffer = buffer;
  place.regions = {{.first = first, .count = 1, .stride = 0, .block = block}};
  return place;
}

Place send(int32_t first, int32_t block) { return chunks(Buffer::kSend, first, block); }
Place recv(int32_t first, int32_t block) { return chunks(Buffer::kRecv, first, block); }
Place scratch(int32_t first, int32_t block) { return chunks(Buffer::kScratch, first, block); }

Place to(Rank peer) {
  Place place;
  place.kind = Place::Kind::kMessage;
  place.peer = peer;
  return place;
}

Place from(Rank peer) { return to(peer); }

Place at(Rank peer, Place place) {
  place.kind = Place::Kind::kWindow;
  place.peer = peer;
  return place;
}

Place first(Place place) {
  place.first = true;
  return place;
}

Step& add(Lane& lane, Places destinations, Places sources) {
  Step& step = lane.steps.emplace_back();
  step.destinations = std::move(destinations);
  step.sources = std::move(sources);
  return step;
}

Step& finish(Lane& lane, Places destinations, Places sources) {
  Step& step = add(lane, std::move(destinations), std::move(sources));
  step.last = true;
  return step;
}

Step& add_split(Lane& lane, const Places& destinations, const Places& sources, const Place& spare) {
  auto next = sources.begin();
  Places group;
  while (sources.end() - next > kMaxSources - static_cast<ptrdiff_t>(group.size())) {
    const auto end = next + (kMaxSources - static_cast<ptrdiff_t>(group.size()));
    group.insert(group.end(), next, end);
    next = end;
    add(lane, {spare}, std::exchange(group, {spare}));
  }
  group.insert(group.end(), next, sources.end());
  return add(lane, destinations, std::move(group));
}

void finish_split(Lane& lane, const Places& destinations, const Places& sources, int32_t spare) {
  add_split(lane, destinations, sources, scratch(spare)).last = true;
}

void spread(Lane& lane, const Places& destinations, const Place& source) {
  for (size_t done = 0; done < destinations.size(); done += kMaxDestinations) {
    const auto from = destinations.begin() + static_cast<ptrdiff_t>(done);
    const auto count = std::min<ptrdiff_t>(kMaxDestinations, destinations.end() - from);
    add(lane, Places(from, from + count), {source});
  }
}

Place Slab::at(int32_t position, int32_t block) const {
  const int32_t start = wrapped(position, size);
  Place place = chunks(buffer, base + start, std::min(block, size - start));
  if (start + block > size)
    place.regions.push_back({.first = base, .count = 1, .stride = 0, .block = start + block - size});
  return place;
}

Plan begin(Collective collective, std::string_view algorithm, const BuildOptions& options, int32_t lanes,
           int32_t chunks) {
  Plan plan;
  plan.collective = collective;
  plan.algorithm = algorithm;
  plan.rank = options.rank;
  plan.ranks = options.ranks;
  plan.root = options.root;
  plan.send_chunks = chunks;
  plan.recv_chunks = chunks;
  plan.lanes.resize(static_cast<size_t>(lanes));
  return plan;
}

Plan alone(Collective collective, std::string_view algorithm, const BuildOptions& options) {
  Plan plan = begin(collective, algorithm, options);
  Lane& lane = plan.lanes[0];
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
      finish(lane, {recv(0)}, {first(send(0))});
      break;
    case Collective::kScan:
      add(lane, {recv(0)}, {first(send(0))});
      break;
    case Collective::kBarrier:
    case Collective::kExScan:
      break;
    default:
      add(lane, {recv(0)}, {send(0)});
  }
  return plan;
}

Rank shifted(const BuildOptions& options, int64_t distance) { return wrapped(options.rank + distance, options.ranks); }

int32_t wrapped(int64_t value, int32_t size) { return static_cast<int32_t>(((value % size) + size) % size); }

Places to_all_others(const BuildOptions& options) {
  Places places;
  for (Rank distance = 1; distance < options.ranks; ++distance) places.push_back(to(shifted(options, distance)));
  return places;
}

Places from_all(const BuildOptions& options, const Place& own) {
  Places places;
  for (Rank rank = 0; rank < options.ranks; ++rank) places.push_back(rank == options.rank ? own : from(rank));
  return places;
}

Places at_all(const BuildOptions& options, const Place& own) {
  Places places;
  for (Rank rank = 0; rank < options.ranks; ++rank) places.push_back(rank == options.rank ? own : at(rank, own));
  return places;
}

bool is_power_of_two(int32_t value) { return std::has_single_bit(static_cast<uint32_t>(value)); }

int32_t power_of_two_at_most(int32_t value) {
  return static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(value)));
}

bool fits_any(const BuildOptions& options) {
  return options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks && options.root >= 0 &&
         options.root < options.ranks && options.lanes >= 1 && options.lanes <= kMaxLanes;
}

bool fits_one_lane(const BuildOptions& options) { return fits_any(options) && options.lanes == 1; }

}  // namespace hocket::plan
