// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Far first. In an all-gather every rank's chunk goes down a binomial tree of distances, the largest first, so that a
// rank has chunks of ranks far apart and sends those on together: each at its place, nothing is rotated. With all
// distances treated like this it is sparbit (W. Loch, G. Koslovski): ceil(log2 n) rounds. PAT (S. Jeaugey, "PAT: a new
// algorithm for all-gather and reduce-scatter operations at scale") joins no more than `radix` chunks in a message and
// serves the near distances one after the other: more rounds, but bounded messages. Reduce-scatter is the same
// backwards.
#include <algorithm>
#include <bit>

#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::pat {
namespace {

// Chunks by distance: `offset`, offset + period, ... below n ranks before the one that holds them.
struct Group {
  int32_t offset = 0;
  int32_t period = 1;
  int32_t count(Rank ranks) const { return (ranks - offset + period - 1) / period; }
  // As they stand in a buffer with a chunk for each rank.
  Place at(Buffer buffer, const BuildOptions& options) const {
    Place place = chunks(buffer, shifted(options, -offset));
    place.regions[0].count = count(options.ranks);
    place.regions[0].stride = place.regions[0].count > 1 ? -period : 0;
    return place;
  }
};

// In a round of the all-gather a group comes from the rank `distance` before, where its source is that much nearer.
struct Round {
  Group group;
  int32_t distance() const { return group.offset & -group.offset; }
  Group source() const { return {group.offset - distance(), group.period}; }
};

// Distances below this are served one after the other.
int32_t near_distances(Rank ranks, int32_t joined) {
  const auto span = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(ranks)));
  return std::max(1, span / joined);
}

std::vector<Round> rounds(Rank ranks, int32_t joined) {
  std::vector<Round> result;
  const auto span = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(ranks)));
  const int32_t near = near_distances(ranks, joined);
  for (int32_t distance = span / 2; distance >= near; distance /= 2) result.push_back({{distance, 2 * distance}});
  for (int32_t offset = 1; offset < near; ++offset) result.push_back({{offset, near}});
  return result;
}

// The first ones of a round's source group, as many as its group has: the last may have nobody so far behind.
Place matching(const Round& round, Buffer buffer, const BuildOptions& options) {
  Place place = round.source().at(buffer, options);
  place.regions[0].count = round.group.count(options.ranks);
  if (place.regions[0].count == 1) place.regions[0].stride = 0;
  return place;
}

int32_t longest_message(const std::vector<Round>& rounds, Rank ranks) {
  int32_t longest = 1;
  for (const Round& round : rounds) longest = std::max(longest, round.group.count(ranks));
  return longest;
}

Plan gather(std::string_view name, const BuildOptions& options, int32_t joined) {
  if (options.ranks == 1) return alone(Collective::kAllGather, name, options);
  Plan plan = begin(Collective::kAllGather, name, options);
  const std::vector<Round> all = rounds(options.ranks, joined);
  plan.recv_chunks = options.ranks;
  plan.message_chunks = longest_message(all, options.ranks);
  Lane& lane = plan.lanes[0];
  add(lane, {recv(options.rank), to(shifted(options, all[0].distance()))}, {send(0)});
  for (size_t i = 0; i < all.size(); ++i) {
    const Round& round = all[i];
    if (i > 0) add(lane, {to(shifted(options, round.distance()))}, {matching(round, Buffer::kRecv, options)});
    add(lane, {round.group.at(Buffer::kRecv, options)}, {from(shifted(options, -round.distance()))});
  }
  return plan;
}

// Backwards, rounds come to a source group from the largest distance below its own on.
bool is_first_to(const Round& round, int32_t near) {
  const int32_t source = round.source().offset;
  const int32_t reach = source == 0 ? near : source & -source;
  return near == 1 ? round.distance() == 1 : 2 * round.distance() == reach;
}

}  // namespace

bool fits(const BuildOptions& options) { return fits_one_lane(options) && options.radix >= 2; }

Plan all_gather(const BuildOptions& options) { return gather("pat", options, power_of_two_at_most(options.radix)); }

Plan all_gather_sparbit(const BuildOptions& options) { return gather("sparbit", options, INT32_MAX); }

Plan reduce_scatter(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kReduceScatter, "pat", options);
  Plan plan = begin(Collective::kReduceScatter, "pat", options);
  const int32_t joined = power_of_two_at_most(options.radix);
  const std::vector<Round> all = rounds(options.ranks, joined);
  const int32_t near = near_distances(options.ranks, joined);
  plan.send_chunks = options.ranks;
  plan.scratch_chunks = options.ranks > 2 ? options.ranks : 0;
  plan.message_chunks = longest_message(all, options.ranks);
  Lane& lane = plan.lanes[0];
  for (size_t i = all.size(); i-- > 0;) {
    const Round& round = all[i];
    const bool fresh_sent = round.group.offset % 2 == 1;
    const bool fresh_kept = is_first_to(round, near);
    Place sent = round.group.at(fresh_sent ? Buffer::kSend : Buffer::kScratch, options);
    Place kept = matching(round, fresh_kept ? Buffer::kSend : Buffer::kScratch, options);
    sent.first = fresh_sent;
    kept.first = fresh_kept;
    add(lane, {to(shifted(options, -round.distance()))}, {sent});
    const int32_t alone_at = round.source().offset + round.group.count(options.ranks) * round.group.period;
    if (fresh_kept && alone_at < options.ranks) {
      const Rank chunk = shifted(options, -alone_at);
      add(lane, {scratch(chunk)}, {first(send(chunk))});
    }
    const Place target = i == 0 ? recv(0) : matching(round, Buffer::kScratch, options);
    add(lane, {target}, {from(shifted(options, round.distance())), kept}).last = i == 0;
  }
  return plan;
}

}  // namespace hocket::plan::pat
