// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Reduce-scatter, all-gather, broadcast and reduce over the groups of the last level, for calls that have a codec: what
// belongs to another group goes there once, from one rank to one, and all else is done inside. So what goes between
// groups is encoded, each value once, and what stays inside is not. The member at place k of a group deals with the one
// at place k of every other group; where theirs is smaller, places begin anew.
#include <algorithm>
#include <span>
#include <vector>

#include "plan/algorithms/algorithms.h"
#include "plan/coded.h"
#include "plan/write.h"

namespace hocket::plan::hierarchical {
namespace {

using Group = Hierarchy::Group;

std::vector<Group> ranks_by_group(const BuildOptions& options) {
  std::vector<Group> groups(options.hierarchy->levels.back().size());
  const std::vector<int32_t> group_of = groups_of(*options.hierarchy, options.ranks);
  for (Rank rank = 0; rank < options.ranks; ++rank)
    groups[static_cast<size_t>(group_of[static_cast<size_t>(rank)])].push_back(rank);
  return groups;
}

// A rank among those of its group, and what it deals with.
class Seat {
 public:
  struct Member {
    Rank rank;
    // Whose blocks it deals with: its own first, then those of other groups.
    Group blocks;
  };

  explicit Seat(const BuildOptions& options) : groups_(ranks_by_group(options)) {
    const auto has_us = [&](const Group& group) { return std::ranges::count(group, options.rank) > 0; };
    own_ = static_cast<size_t>(std::ranges::find_if(groups_, has_us) - groups_.begin());
    const Group& own = groups_[own_];
    place_ = static_cast<size_t>(std::ranges::find(own, options.rank) - own.begin());
    for (size_t i = 0; i < own.size(); ++i) members_.push_back(member((place_ + i) % own.size()));
  }

  const Member& self() const { return members_[0]; }
  std::span<const Member> others() const { return std::span(members_).subspan(1); }
  bool is_alone() const { return members_.size() == 1; }
  bool is_split() const { return members_.size() > kMaxSources; }

  Places to_others() const {
    Places places;
    for (const Member& other : others()) places.push_back(to(other.rank));
    return places;
  }
  // `own`, and what the others send.
  Places with_others(const Place& own) const {
    Places places = {own};
    for (const Member& other : others()) places.push_back(from(other.rank));
    return places;
  }

  // Who in each group deals with us: of our own, ourselves.
  Group partners() const {
    Group partners;
    for (const Group& group : groups_) partners.push_back(group[place_ % group.size()]);
    partners[own_] = self().rank;
    return partners;
  }

  // Calls visit(i) for the numbers of blocks, up to those of the member that has most.
  template <typename Visit>
  void in_turns(Visit visit) const {
    const auto count = [](const Member& member) { return member.blocks.size(); };
    const size_t most = count(*std::ranges::max_element(members_, {}, count));
    for (size_t i = 0; i < most; ++i) visit(i);
  }

  // The rank of each group that stands for it: `root` first, then those of the groups after its own.
  Group leaders(Rank root) const {
    const auto has_root = [&](const Group& group) { return std::ranges::count(group, root) > 0; };
    const auto first = static_cast<size_t>(std::ranges::find_if(groups_, has_root) - groups_.begin());
    Group leaders = {root};
    for (size_t i = 1; i < groups_.size(); ++i) leaders.push_back(groups_[(first + i) % groups_.size()][0]);
    return leaders;
  }
  // Where in their list ours is.
  size_t place_of_leader(const Group& leaders) const {
    return static_cast<size_t>(std::ranges::find_first_of(leaders, groups_[own_]) - leaders.begin());
  }

 private:
  Member member(size_t place) const {
    const Group& own = groups_[own_];
    Member member{own[place], {own[place]}};
    for (size_t distance = 1; distance < groups_.size(); ++distance) {
      const Group& group = groups_[(own_ + distance) % groups_.size()];
      for (size_t theirs = place; theirs < group.size(); theirs += own.size()) member.blocks.push_back(group[theirs]);
    }
    return member;
  }

  std::vector<Group> groups_;
  size_t own_ = 0;
  size_t place_ = 0;
  std::vector<Member> members_;  // beginning with us
};

bool has_groups(const BuildOptions& options) {
  if (!options.coded || options.hierarchy == nullptr) return false;
  const size_t groups = options.hierarchy->levels.back().size();
  return groups > 1 && groups <= kMaxSources && groups <= kMaxDestinations;
}

}  // namespace

bool fits_blocks(const BuildOptions& options) { return fits_one_lane(options) && has_groups(options); }
bool fits_rooted(const BuildOptions& options) { return fits_any(options) && has_groups(options); }

// Members hand each other what goes to others in turns, so that no pipe holds more than one message.
Plan reduce_scatter(const BuildOptions& options) {
  Plan plan = begin(Collective::kReduceScatter, "hierarchical", options);
  plan.send_chunks = options.ranks;
  Lane& lane = plan.lanes[0];
  const Seat seat(options);
  const Group& mine = seat.self().blocks;
  const auto sums = static_cast<int32_t>(seat.is_alone() ? 0 : mine.size() - 1);
  plan.scratch_chunks = sums + (seat.is_split() ? 1 : 0);
  seat.in_turns([&](size_t i) {
    for (const Seat::Member& other : seat.others()) {
      if (i < other.blocks.size()) add(lane, {to(other.rank)}, {first(send(other.blocks[i]))});
    }
    if (i >= mine.size()) return;
    const Place own = first(send(mine[i]));
    const Place sum = seat.is_alone() ? own : i == 0 ? recv(0) : scratch(static_cast<int32_t>(i) - 1);
    if (!seat.is_alone()) add_split(lane, {sum}, seat.with_others(own), scratch(sums));
    if (i > 0) add(lane, {to(mine[i])}, {sum});
  });
  Places sources;
  for (const Rank partner : seat.partners()) sources.push_back(from(partner));
  *std::ranges::find(sources, from(options.rank)) = seat.is_alone() ? first(send(options.rank)) : recv(0);
  finish(lane, {recv(0)}, sources);
  return plan;
}

Plan all_gather(const BuildOptions& options) {
  Plan plan = begin(Collective::kAllGather, "hierarchical", options);
  plan.recv_chunks = options.ranks;
  Lane& lane = plan.lanes[0];
  const Seat seat(options);
  const Group& mine = seat.self().blocks;
  Places away;
  for (const Rank partner : seat.partners()) away.push_back(to(partner));
  *std::ranges::find(away, to(options.rank)) = recv(options.rank);
  add(lane, away, {send(0)});
  seat.in_turns([&](size_t i) {
    if (i > 0 && i < mine.size()) add(lane, {recv(mine[i])}, {from(mine[i])});
    if (i < mine.size()) spread(lane, seat.to_others(), recv(mine[i]));
    for (const Seat::Member& other : seat.others()) {
      if (i < other.blocks.size()) add(lane, {recv(other.blocks[i])}, {from(other.rank)});
    }
  });
  return plan;
}

// Along the leaders as it came; each keeps what it decodes to, and tells its group.
Plan broadcast(const BuildOptions& options) {
  Plan plan = begin(Collective::kBroadcast, "hierarchical", options, options.lanes, options.lanes);
  const Seat seat(options);
  const Group leaders = seat.leaders(options.root);
  const size_t place = seat.place_of_leader(leaders);
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    if (leaders[place] != options.rank) {
      add(lane, {recv(part)}, {from(leaders[place])});
      continue;
    }
    Places kept = {recv(part)};
    if (place + 1 < leaders.size()) kept.push_back(to(leaders[place + 1]));
    add(lane, kept, {place == 0 ? send(part) : from(leaders[place - 1])});
    spread(lane, seat.to_others(), recv(part));
  }
  return plan;
}

Plan reduce(const BuildOptions& options) {
  Plan plan = begin(Collective::kReduce, "hierarchical", options, options.lanes, options.lanes);
  const Seat seat(options);
  const Group leaders = seat.leaders(options.root);
  const Rank leader = leaders[seat.place_of_leader(leaders)];
  if (leader == options.rank && !seat.is_alone()) plan.scratch_chunks = options.lanes * (seat.is_split() ? 2 : 1);
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    const Place own = first(send(part)), sum = seat.is_alone() ? own : scratch(part);
    if (leader != options.rank) {
      add(lane, {to(leader)}, {own});
      continue;
    }
    if (!seat.is_alone()) add_split(lane, {sum}, seat.with_others(own), scratch(options.lanes + part));
    if (leader != options.root) {
      add(lane, {to(options.root)}, {sum});
      continue;
    }
    Places sources = {sum};
    for (const Rank other : leaders) {
      if (other != options.root) sources.push_back(from(other));
    }
    finish(lane, {recv(part)}, sources);
  }
  return plan;
}

}  // namespace hocket::plan::hierarchical
