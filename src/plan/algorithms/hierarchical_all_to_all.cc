// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All-to-all over two levels: a rank hands what it has for other groups to members of its own group, the member at
// place k what goes to places k, k + g, k + 2g, ... (g being the size of the own group), and each member sends what it
// has got from all of its group in one message to each rank it serves. Between groups there is a g-th of the messages,
// each g times as long. Ranks of a group are consecutive, so that what comes from them lies side by side. Their places
// are those that the hierarchy gives them (so messages keep to rails) where groups are equally large; else they go by
// numbers.
#include <algorithm>

#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::hierarchical {
namespace {

using Group = Hierarchy::Group;

Place strided(Buffer buffer, int32_t first, int32_t count, int32_t stride) {
  Place place = chunks(buffer, first);
  place.regions[0].count = count;
  place.regions[0].stride = count > 1 ? stride : 0;
  return place;
}

std::vector<Group> by_numbers(std::vector<Group> groups) {
  for (Group& group : groups) std::ranges::sort(group);
  return groups;
}

// The ranks at places p, p + g, ... of a larger group are side by side only when they stand by numbers.
std::vector<Group> by_places(const std::vector<Group>& groups) {
  const auto is_equal = [&](const Group& group) { return group.size() == groups[0].size(); };
  return std::ranges::all_of(groups, is_equal) ? groups : by_numbers(groups);
}

class Exchange {
 public:
  explicit Exchange(const BuildOptions& options)
      : groups_(by_numbers(options.hierarchy->levels[0])),
        places_(by_places(options.hierarchy->levels[0])),
        rank_(options.rank) {
    while (std::ranges::count(groups_[own_], rank_) == 0) ++own_;
    place_ = place_of(rank_);
  }

  void build(Plan& plan) {
    Lane& lane = plan.lanes[0];
    add(lane, {recv(rank_)}, {send(rank_)});
    hand_inside(lane);
    take_inside(lane);
    send_outside(lane);
    take_outside(lane);
    const int32_t most = served_in_all();
    plan.scratch_chunks = most > 0 ? most * size(own_) : 0;
  }

  // Chunks of the longest message of any rank.
  static int32_t longest_message(const std::vector<Group>& groups) {
    size_t longest = 1;
    for (const Group& from : groups) {
      if (groups.size() > 1) longest = std::max(longest, from.size());
      for (const Group& to : groups) {
        if (&from != &to && from.size() > 1) longest = std::max(longest, (to.size() + from.size() - 1) / from.size());
      }
    }
    return static_cast<int32_t>(longest);
  }

 private:
  int32_t size(size_t group) const { return static_cast<int32_t>(groups_[group].size()); }
  Rank first(size_t group) const { return groups_[group][0]; }
  // Of our group.
  int32_t place_of(Rank rank) const {
    return static_cast<int32_t>(std::ranges::find(places_[own_], rank) - places_[own_].begin());
  }
  Rank rank_at(size_t group, int32_t place) const { return places_[group][static_cast<size_t>(place)]; }

  // How many ranks of a group the member at `place` of ours serves.
  int32_t served(size_t group, int32_t place) const {
    return place < size(group) ? (size(group) - 1 - place) / size(own_) + 1 : 0;
  }

  int32_t served_in_all() const {
    int32_t sum = 0;
    for (size_t group = 0; group < groups_.size(); ++group) sum += group == own_ ? 0 : served(group, place_);
    return sum;
  }

  template <typename Visit>
  void for_other_groups(Visit visit) const {
    for (size_t distance = 1; distance < groups_.size(); ++distance) visit((own_ + distance) % groups_.size());
  }

  template <typename Visit>
  void for_other_members(Visit visit) const {
    const int32_t ours = rank_ - first(own_);
    for (int32_t distance = 1; distance < size(own_); ++distance) visit(first(own_) + (ours + distance) % size(own_));
  }

  void hand_inside(Lane& lane) const {
    for_other_members([&](Rank member) { add(lane, {to(member)}, {send(member)}); });
    for_other_members([&](Rank member) { add(lane, {recv(member)}, {from(member)}); });
  }

  // What we have for those of another group whom a member of ours serves.
  Place sent_by_way_of(Rank member, size_t group) const {
    const int32_t place = place_of(member);
    return strided(Buffer::kSend, rank_at(group, place), served(group, place), size(own_));
  }

  // Scratch holds, for each rank that we serve, in the order of groups, what all of our group have for it.
  void take_inside(Lane& lane) const {
    int32_t start = 0;
    for_other_groups([&](size_t group) {
      for_other_members([&](Rank member) {
        if (served(group, place_of(member)) > 0) add(lane, {to(member)}, {sent_by_way_of(member, group)});
      });
      const int32_t count = served(group, place_);
      if (count == 0) return;
      const auto kept = [&](Rank member) {
        return strided(Buffer::kScratch, start + member - first(own_), count, size(own_));
      };
      add(lane, {kept(rank_)}, {sent_by_way_of(rank_, group)});
      for_other_members([&](Rank member) { add(lane, {kept(member)}, {from(member)}); });
      start += count * size(own_);
    });
  }

  void send_outside(Lane& lane) const {
    int32_t start = 0;
    for_other_groups([&](size_t group) {
      for (int32_t i = 0; i < served(group, place_); ++i) {
        add(lane, {to(rank_at(group, place_ + i * size(own_)))}, {scratch(start, size(own_))});
        start += size(own_);
      }
    });
  }

  // Of each group, the member that serves our place.
  void take_outside(Lane& lane) const {
    for (size_t distance = 1; distance < groups_.size(); ++distance) {
      const size_t group = (own_ + groups_.size() - distance) % groups_.size();
      add(lane, {recv(first(group), size(group))}, {from(rank_at(group, place_ % size(group)))});
    }
  }

  const std::vector<Group> groups_;  // by numbers
  const std::vector<Group> places_;
  const Rank rank_;
  size_t own_ = 0;
  int32_t place_ = 0;
};

bool consecutive(const Group& group) {
  return std::ranges::adjacent_find(group, [](Rank a, Rank b) { return b != a + 1; }) == group.end();
}

}  // namespace

bool fits_all_to_all(const BuildOptions& options) {
  return fits_one_lane(options) && options.hierarchy != nullptr && !options.in_place &&
         std::ranges::all_of(by_numbers(options.hierarchy->levels[0]), consecutive);
}

Plan all_to_all(const BuildOptions& options) {
  Plan plan = begin(Collective::kAllToAll, "hierarchical", options, 1, options.ranks);
  plan.message_chunks = Exchange::longest_message(options.hierarchy->levels[0]);
  Exchange(options).build(plan);
  return plan;
}

}  // namespace hocket::plan::hierarchical
