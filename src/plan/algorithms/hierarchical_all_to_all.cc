// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All-to-all over two levels: a rank hands what it has for other groups to members of its own group, the member at
// place k what goes to places k, k + g, k + 2g, ... (g being the size of the own group), and each member sends what it
// has got from all of its group in one message to each rank it serves. Between groups there is a g-th of the messages,
// each g times as long. Ranks of a group are consecutive, and stand in the order of their numbers whatever the
// hierarchy says: what goes to them lies side by side.
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

std::vector<Group> in_order(std::vector<Group> groups) {
  for (Group& group : groups) std::ranges::sort(group);
  return groups;
}

class Exchange {
 public:
  explicit Exchange(const BuildOptions& options)
      : groups_(in_order(options.hierarchy->levels[0])), rank_(options.rank) {
    while (std::ranges::count(groups_[own_], rank_) == 0) ++own_;
    place_ = rank_ - groups_[own_][0];
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
    for (int32_t distance = 1; distance < size(own_); ++distance) visit((place_ + distance) % size(own_));
  }

  void hand_inside(Lane& lane) const {
    for_other_members(
        [&](int32_t member) { add(lane, {to(groups_[own_][0] + member)}, {send(groups_[own_][0] + member)}); });
    for_other_members(
        [&](int32_t member) { add(lane, {recv(groups_[own_][0] + member)}, {from(groups_[own_][0] + member)}); });
  }

  // Scratch holds, for each rank that we serve, in the order of groups, what all of our group have for it.
  void take_inside(Lane& lane) const {
    int32_t start = 0;
    for_other_groups([&](size_t group) {
      for_other_members([&](int32_t member) {
        const int32_t count = served(group, member);
        if (count > 0)
          add(lane, {to(groups_[own_][0] + member)},
              {strided(Buffer::kSend, groups_[group][0] + member, count, size(own_))});
      });
      const int32_t count = served(group, place_);
      if (count == 0) return;
      add(lane, {strided(Buffer::kScratch, start + place_, count, size(own_))},
          {strided(Buffer::kSend, groups_[group][0] + place_, count, size(own_))});
      for_other_members([&](int32_t member) {
        add(lane, {strided(Buffer::kScratch, start + member, count, size(own_))}, {from(groups_[own_][0] + member)});
      });
      start += count * size(own_);
    });
  }

  void send_outside(Lane& lane) const {
    int32_t start = 0;
    for_other_groups([&](size_t group) {
      for (int32_t i = 0; i < served(group, place_); ++i) {
        add(lane, {to(groups_[group][0] + place_ + i * size(own_))}, {scratch(start, size(own_))});
        start += size(own_);
      }
    });
  }

  // Of each group, the member that serves our place.
  void take_outside(Lane& lane) const {
    for (size_t distance = 1; distance < groups_.size(); ++distance) {
      const size_t group = (own_ + groups_.size() - distance) % groups_.size();
      add(lane, {recv(groups_[group][0], size(group))}, {from(groups_[group][0] + place_ % size(group))});
    }
  }

  const std::vector<Group> groups_;
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
         std::ranges::all_of(in_order(options.hierarchy->levels[0]), consecutive);
}

Plan all_to_all(const BuildOptions& options) {
  Plan plan = begin(Collective::kAllToAll, "hierarchical", options, 1, options.ranks);
  plan.message_chunks = Exchange::longest_message(options.hierarchy->levels[0]);
  Exchange(options).build(plan);
  return plan;
}

}  // namespace hocket::plan::hierarchical
