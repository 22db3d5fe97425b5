// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/demand.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "plan/coded.h"
#include "plan/lanes.h"
#include "plan/regions.h"

namespace hocket {
namespace {

// Plans of more steps than this are counted for the root or, without one, the last rank of the first host only: they
// treat all ranks alike.
constexpr size_t kLongPlan = 256;
constexpr Rank kAllUpTo = 8;
constexpr Rank kMostOfHost = 64;
constexpr Rank kMostOfHosts = 64;  // where all of them are looked at

const Place* first_chunk_place(const Step& step) {
  for (const auto* places : {&step.sources, &step.destinations}) {
    for (const Place& place : *places) {
      if (place.kind == Place::Kind::kChunk) return &place;
    }
  }
  return nullptr;
}

// How many chunks of the caller's the rank reads for the first time.
int64_t first_read(const Plan& plan, const Place& source, std::vector<bool>& is_read) {
  int64_t count = 0;
  if (source.buffer != Buffer::kSend) return count;
  for_each_chunk(source.regions, plan.send_chunks, [&](int32_t chunk) {
    auto seen = is_read[static_cast<size_t>(chunk)];
    if (!seen) ++count;
    seen = true;
  });
  return count;
}

int64_t messages_of(const std::vector<Place>& places) { return std::ranges::count_if(places, is_message); }
bool sends(const Step& step) { return messages_of(step.destinations) > 0; }
bool keeps(const Step& step) { return std::ranges::any_of(step.destinations, std::not_fn(is_message)); }
// A message goes on as it came: no codec looks into it.
bool forwards(const Step& step) { return step.sources.size() == 1 && is_message(step.sources[0]); }

// What a lane sends to each peer, less what it receives from it, where that is more than nothing.
void count_one_way(const Lane& lane, Rank rank, const NetworkModel& model, std::vector<int64_t>& balance,
                   RankDemand& demand) {
  for (const Step& step : lane.steps) {
    for (const Place& destination : step.destinations) {
      if (!is_message(destination)) continue;
      const int64_t left = std::exchange(balance[static_cast<size_t>(destination.peer)], 0);
      demand.levels[model.level_of(rank, destination.peer)].chunks_one_way += std::max<int64_t>(0, left);
    }
  }
}

RankDemand count(const Plan& plan, const NetworkModel& model, bool coded) {
  RankDemand demand;
  const bool flows = std::ranges::any_of(model.levels, [](const auto& level) { return level.cost.flow_byte > 0; });
  std::vector<int64_t> sent(flows ? static_cast<size_t>(plan.ranks) : 0);  // chunks by this lane, by peer
  std::vector<int64_t> balance(static_cast<size_t>(plan.ranks));
  std::vector<bool> is_read(static_cast<size_t>(plan.send_chunks));
  for (const Lane& lane : plan.lanes) {
    std::ranges::fill(sent, 0);
    std::ranges::fill(balance, 0);
    for (const Step& step : lane.steps) {
      const int64_t chunks = chunks_moved(step);
      ++demand.steps;
      for (const Place& source : step.sources) {
        if (source.kind == Place::Kind::kChunk) {
          const int64_t first = first_read(plan, source, is_read);
          demand.chunks_placed += first;
          demand.chunks_reread += chunks - first;
          continue;
        }
        RankDemand::Traffic& traffic = demand.levels[model.level_of(plan.rank, source.peer)];
        ++traffic.messages_received;
        traffic.chunks_received += chunks;
        balance[static_cast<size_t>(source.peer)] -= chunks;
      }
      for (const Place& destination : step.destinations) {
        if (destination.kind == Place::Kind::kChunk) {
          demand.chunks_placed += chunks;
          continue;
        }
        RankDemand::Traffic& traffic = demand.levels[model.level_of(plan.rank, destination.peer)];
        ++traffic.messages_sent;
        traffic.chunks_sent += chunks;
        balance[static_cast<size_t>(destination.peer)] += chunks;
        if (flows) {
          int64_t& of_pipe = sent[static_cast<size_t>(destination.peer)];
          traffic.chunks_of_pipe = std::max(traffic.chunks_of_pipe, of_pipe += chunks);
        }
      }
      if (coded && !step.plain) {
        const bool encodes = sends(step) && !forwards(step);
        if (encodes) demand.chunks_encoded += chunks;
        if (encodes && keeps(step)) demand.chunks_decoded += chunks;  // what was sent
        if (!forwards(step) || keeps(step)) demand.chunks_decoded += chunks * messages_of(step.sources);
        continue;
      }
      if (step.sources.size() > 1) demand.chunks_combined += chunks * static_cast<int64_t>(step.sources.size() - 1);
    }
    count_one_way(lane, plan.rank, model, balance, demand);
  }
  return demand;
}

void raise(RankDemand& most, const RankDemand& other) {
  for (size_t level = 0; level < most.levels.size(); ++level) {
    RankDemand::Traffic& mine = most.levels[level];
    const RankDemand::Traffic& theirs = other.levels[level];
    mine.messages_sent = std::max(mine.messages_sent, theirs.messages_sent);
    mine.messages_received = std::max(mine.messages_received, theirs.messages_received);
    mine.chunks_sent = std::max(mine.chunks_sent, theirs.chunks_sent);
    mine.chunks_received = std::max(mine.chunks_received, theirs.chunks_received);
    mine.chunks_one_way = std::max(mine.chunks_one_way, theirs.chunks_one_way);
    mine.chunks_of_pipe = std::max(mine.chunks_of_pipe, theirs.chunks_of_pipe);
  }
  most.steps = std::max(most.steps, other.steps);
  most.chunks_placed = std::max(most.chunks_placed, other.chunks_placed);
  most.chunks_reread = std::max(most.chunks_reread, other.chunks_reread);
  most.chunks_combined = std::max(most.chunks_combined, other.chunks_combined);
  most.chunks_encoded = std::max(most.chunks_encoded, other.chunks_encoded);
  most.chunks_decoded = std::max(most.chunks_decoded, other.chunks_decoded);
}

void keep_heavy(std::vector<RankDemand>& heavy, const RankDemand& rank) {
  if (std::ranges::any_of(heavy, [&](const RankDemand& other) { return other.exceeds(rank); })) return;
  std::erase_if(heavy, [&](const RankDemand& other) { return rank.exceeds(other); });
  heavy.push_back(rank);
}

int32_t count_peers(const Plan& plan) {
  std::set<Rank> peers;
  for (const Lane& lane : plan.lanes) {
    for (const Step& step : lane.steps) {
      for (const Place& place : step.destinations) {
        if (place.kind == Place::Kind::kMessage) peers.insert(place.peer);
      }
    }
  }
  return static_cast<int32_t>(peers.size());
}

// Of those over which it sends and those over which it receives, the more.
int32_t count_pipes(const Plan& plan) {
  std::set<std::pair<Rank, size_t>> sending, receiving;
  const auto add = [](auto& pipes, const auto& places, size_t lane) {
    for (const Place& place : places) {
      if (place.kind == Place::Kind::kMessage) pipes.emplace(place.peer, lane);
    }
  };
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (const Step& step : plan.lanes[lane].steps) {
      add(sending, step.destinations, lane);
      add(receiving, step.sources, lane);
    }
  }
  return static_cast<int32_t>(std::max(sending.size(), receiving.size()));
}

// What the fast path asks of a plan (execute/fast_path.h).
bool may_be_bound(const Plan& plan) {
  return plan.lanes.size() == 1 && plan.scratch_chunks == 0 &&
         std::ranges::all_of(plan.lanes[0].steps, [](const Step& step) { return chunks_moved(step) <= 1; });
}

bool has_plain_steps(const Plan& plan) {
  return std::ranges::any_of(plan.lanes, [](const Lane& lane) {
    return std::ranges::any_of(lane.steps, [](const Step& step) { return step.plain; });
  });
}

// The root, its neighbours, the ends of the first host, and the heads of large subtrees.
std::set<Rank> ranks_to_see(const BuildOptions& options, Rank border) {
  std::set<Rank> ranks;
  if (options.ranks <= kAllUpTo) {
    for (Rank rank = 0; rank < options.ranks; ++rank) ranks.insert(rank);
    return ranks;
  }
  ranks = {options.root, border};
  const auto half = static_cast<Rank>(std::bit_floor(static_cast<uint32_t>(options.ranks - 1)));
  for (const Rank distance : {1, half / 2, half, half + 1, options.ranks - 1}) {
    ranks.insert((options.root + distance) % options.ranks);
  }
  return ranks;
}

// The hosts of all ranks, or of the root and the middle rank, which has neighbours on both sides where ranks are
// numbered through.
std::set<int32_t> hosts_to_see(const BuildOptions& options, const NetworkModel& model, Rank width) {
  std::set<int32_t> hosts;
  if (options.ranks > kMostOfHosts) {
    for (const Rank rank : {options.root, options.ranks / width / 2 * width}) hosts.insert(model.seat(rank) / width);
    return hosts;
  }
  for (Rank rank = 0; rank < options.ranks; ++rank) hosts.insert(model.seat(rank) / width);
  return hosts;
}

// Of the host that sends most, or receives.
int64_t chunks_of_host(const Builder& builder, const BuildOptions& options, const NetworkModel& model) {
  const Rank width = std::min(model.levels[0].children, options.ranks);
  const std::set<int32_t> hosts = hosts_to_see(options, model, width);
  std::map<int32_t, std::pair<int64_t, int64_t>> chunks;  // sent and received, by host
  BuildOptions own = options;
  for (own.rank = 0; own.rank < options.ranks; ++own.rank) {
    const int32_t host = model.seat(own.rank) / width;
    if (!hosts.contains(host)) continue;
    const RankDemand seen = count(build(builder, own), model, options.coded);
    for (size_t level = 1; level < model.levels.size(); ++level) {
      chunks[host].first += seen.levels[level].chunks_sent;
      chunks[host].second += seen.levels[level].chunks_received;
    }
  }
  int64_t most = 0;
  for (const auto& [host, moved] : chunks) most = std::max({most, moved.first, moved.second});
  return most;
}

}  // namespace

std::optional<int32_t> rounds(const Builder& builder, const BuildOptions& options) {
  if (builder.name == "hierarchical" && options.hierarchy != nullptr)
    return hierarchical_rounds(builder.collective, options);
  if (builder.name == "routed_trees") return tree_rounds(builder.collective, options.trees, options.root);
  return rounds(builder.collective, builder.name, options.ranks);
}

int64_t chunks_moved(const Step& step) {
  const Place* place = first_chunk_place(step);
  return place == nullptr ? 0 : chunk_count(place->regions);
}

bool divides(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kBroadcast ||
         collective == Collective::kReduce;
}

RankDemand& RankDemand::operator+=(const RankDemand& other) {
  for (size_t level = 0; level < levels.size(); ++level) {
    levels[level].messages_sent += other.levels[level].messages_sent;
    levels[level].messages_received += other.levels[level].messages_received;
    levels[level].chunks_sent += other.levels[level].chunks_sent;
    levels[level].chunks_received += other.levels[level].chunks_received;
    levels[level].chunks_one_way += other.levels[level].chunks_one_way;
  }
  steps += other.steps;
  chunks_placed += other.chunks_placed;
  chunks_reread += other.chunks_reread;
  chunks_combined += other.chunks_combined;
  chunks_encoded += other.chunks_encoded;
  chunks_decoded += other.chunks_decoded;
  return *this;
}

bool RankDemand::exceeds(const RankDemand& other) const {
  for (size_t level = 0; level < levels.size(); ++level) {
    const Traffic& mine = levels[level];
    const Traffic& theirs = other.levels[level];
    if (mine.messages_sent < theirs.messages_sent || mine.messages_received < theirs.messages_received) return false;
    if (mine.chunks_sent < theirs.chunks_sent || mine.chunks_received < theirs.chunks_received) return false;
    if (mine.chunks_one_way < theirs.chunks_one_way) return false;
  }
  return steps >= other.steps && chunks_placed >= other.chunks_placed && chunks_reread >= other.chunks_reread &&
         chunks_combined >= other.chunks_combined && chunks_encoded >= other.chunks_encoded &&
         chunks_decoded >= other.chunks_decoded;
}

RankDemand& RankDemand::operator*=(int64_t times) {
  for (Traffic& traffic : levels) {
    for (int64_t* count : {&traffic.messages_sent, &traffic.messages_received, &traffic.chunks_sent,
                           &traffic.chunks_received, &traffic.chunks_one_way})
      *count *= times;
  }
  for (int64_t* count : {&steps, &chunks_placed, &chunks_reread, &chunks_combined, &chunks_encoded, &chunks_decoded})
    *count *= times;
  return *this;
}

Demand over_lanes(Demand demand, int32_t lanes) {
  demand.busiest *= lanes;
  demand.average *= lanes;
  for (RankDemand& rank : demand.heavy) rank *= lanes;
  if (demand.host_chunks > 0) demand.host_chunks *= lanes;
  for (int32_t* count : {&demand.chunks, &demand.parts, &demand.lanes, &demand.pipes}) *count *= lanes;
  demand.most_lanes /= lanes;
  return demand;
}

Demand transfer_demand(const Plan& plan, const NetworkModel& model) {
  Demand demand;
  demand.busiest = demand.average = count(plan, model, false);
  demand.heavy = {demand.busiest};
  for (RankDemand::Traffic& traffic : demand.average.levels) traffic.messages_sent += traffic.messages_received;
  demand.rounds = demand.ranks_seen = 1;
  return demand;
}

std::optional<Demand> demand(const Builder& builder, const BuildOptions& options, const NetworkModel& model) {
  const std::optional<int32_t> chain = rounds(builder, options);
  if (!chain.has_value()) return std::nullopt;
  const Rank border = std::min(model.levels[0].children, options.ranks) - 1;
  BuildOptions own = options;
  own.rank = is_rooted(builder.collective) ? options.root : border;
  const Plan first = build(builder, own);
  size_t places = 0;
  for (const Lane& lane : first.lanes) places += lane.steps.size();
  Demand result;
  result.rounds = *chain;
  result.chunks = std::max(first.send_chunks, first.recv_chunks);
  result.message_chunks = first.message_chunks;
  result.depth = first.depth;
  result.parts = parts_of(first);
  result.most_lanes = most_lanes(first);
  result.peers = count_peers(first);
  result.lanes = static_cast<int32_t>(first.lanes.size());
  result.rounds_of_rank = rounds_of_rank(builder.collective, builder.name, result.rounds);
  result.in_line = goes_in_line(builder.collective, builder.name);
  result.divides = divides(builder.collective);
  result.plain_levels = has_plain_steps(first) ? model.levels.size() - 1 : 0;
  const bool is_long = places > kLongPlan;
  const int32_t width = model.levels[0].children;
  if (!is_long && width > 1 && width <= kMostOfHost && model.levels.size() > 1)
    result.host_chunks = chunks_of_host(builder, options, model);
  result.may_be_bound = true;
  const auto see = [&](const Plan& plan) {
    const RankDemand seen = count(plan, model, options.coded);
    raise(result.busiest, seen);
    result.pipes = std::max(result.pipes, count_pipes(plan));
    keep_heavy(result.heavy, seen);
    result.average += seen;
    result.may_be_bound = result.may_be_bound && may_be_bound(plan);
    ++result.ranks_seen;
  };
  see(first);  // plans of many ranks are not built twice
  if (is_long) return result;
  for (const Rank rank : ranks_to_see(options, border)) {
    own.rank = rank;
    if (rank != first.rank) see(build(builder, own));
  }
  return result;
}

}  // namespace hocket
