// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All-reduce over levels: inside each group the first m members, m being the size of the smallest group, own a part of
// the data each, and gather it from their group; the owners of a part do the same with their groups of the next level,
// and in the end all-reduce it among each other; then the results go back inside. Slow links between groups carry each
// byte once for a group, not once for a rank, and all owners use theirs at the same time.
#include <algorithm>
#include <optional>

#include "plan/algorithms/algorithms.h"
#include "plan/embed.h"
#include "plan/write.h"

namespace hocket::plan::hierarchical {
namespace {

constexpr std::string_view kDirect = "direct";

using Group = Hierarchy::Group;

size_t smallest(const std::vector<Group>& groups) {
  return std::ranges::min_element(groups, {}, [](const Group& group) { return group.size(); })->size();
}

bool equally_large(const std::vector<Group>& groups) {
  return std::ranges::all_of(groups, [&](const Group& group) { return group.size() == groups[0].size(); });
}

// The reduce-scatter and the all-gather that are called `within`; the latter names its mirror image differently.
const Builder* scatter_builder(std::string_view within) { return find_builder(Collective::kReduceScatter, within); }
const Builder* gather_builder(std::string_view within) {
  const bool halving = within == "recursive_halving";
  return find_builder(Collective::kAllGather, halving ? "recursive_doubling" : within);
}

BuildOptions part_options(Rank rank, Rank ranks) {
  BuildOptions options;
  options.rank = rank;
  options.ranks = ranks;
  options.in_place = true;
  return options;
}

// How the levels cut the data, the same for all ranks.
struct Shape {
  explicit Shape(const Hierarchy& hierarchy) {
    int32_t parts = 1;
    for (const auto& groups : hierarchy.levels) {
      owners.push_back(static_cast<int32_t>(smallest(groups)));
      parts *= owners.back();
    }
    last_groups = static_cast<Rank>(hierarchy.levels.back().size());
    across = find_builder(Collective::kAllReduce, hierarchy.across)->build(part_options(0, last_groups));
    chunks = parts * across.send_chunks;
    message_chunks = across.message_chunks;
    depth = across.depth;
    int32_t length = chunks;
    for (size_t level = 0; level < hierarchy.levels.size(); ++level) {
      length /= owners[level];
      measure(hierarchy, hierarchy.levels[level], length);
    }
  }

  std::vector<int32_t> owners;  // of each level's groups
  Rank last_groups = 1;
  Plan across;  // rank 0's, for its numbers
  int32_t chunks = 1;
  int32_t message_chunks = 1;
  int32_t depth = 1;

 private:
  void measure(const Hierarchy& hierarchy, const std::vector<Group>& groups, int32_t part) {
    int32_t longest = part;
    if (hierarchy.within != kDirect) {
      for (const Builder* builder : {scatter_builder(hierarchy.within), gather_builder(hierarchy.within)}) {
        const Plan model = builder->build(part_options(0, static_cast<Rank>(groups[0].size())));
        longest = std::max(longest, part * model.message_chunks);
        depth = std::max(depth, model.depth);
      }
    }
    message_chunks = std::max(message_chunks, longest);
  }
};

class Composer {
 public:
  Composer(Plan& plan, const BuildOptions& options, const Shape& shape, int32_t part)
      : plan_(plan),
        options_(options),
        hierarchy_(*options.hierarchy),
        shape_(shape),
        first_lane_(static_cast<size_t>(part) * shape.across.lanes.size()),
        base_(part * shape.chunks),
        length_(shape.chunks) {}

  void build() { reduce(0, options_.rank); }

 private:
  // What `unit`, a group of the level below or a rank, has become after the levels below: one rank.
  Rank rank_of(size_t level, int32_t unit) const {
    while (level-- > 0) {
      const Group& group = hierarchy_.levels[level][static_cast<size_t>(unit)];
      unit = group[places_[level]];
    }
    return unit;
  }

  std::vector<Rank> ranks_of(size_t level, const Group& group) const {
    std::vector<Rank> ranks;
    for (const int32_t unit : group) ranks.push_back(rank_of(level, unit));
    return ranks;
  }

  void reduce(size_t level, int32_t unit) {
    if (level == hierarchy_.levels.size()) return in_order([&] { reduce_across(unit); });
    const std::vector<Group>& groups = hierarchy_.levels[level];
    const auto own =
        std::ranges::find_if(groups, [&](const Group& group) { return std::ranges::count(group, unit) > 0; });
    const std::vector<Rank> members = ranks_of(level, *own);
    const auto place = static_cast<size_t>(std::ranges::find(*own, unit) - own->begin());
    const int32_t owners = shape_.owners[level];
    const int32_t before = base_;
    const int32_t part = length_ / owners;
    in_order([&] { scatter(level, members, place, owners, part); });
    if (place < static_cast<size_t>(owners)) {
      places_.push_back(place);
      base_ += static_cast<int32_t>(place) * part;
      length_ = part;
      reduce(level + 1, static_cast<int32_t>(own - groups.begin()));
      places_.pop_back();
      base_ = before;
      length_ = part * owners;
    }
    in_order([&] { gather(members, place, owners, part); });
  }

  template <typename AddPart>
  void in_order(AddPart add_part) {
    PartBegin begin(plan_, first_lane_, shape_.across.lanes.size());
    add_part();
    begin.order();
  }

  Lane& lane() { return plan_.lanes[first_lane_]; }

  // What we have of the data by now: our contribution, or partial sums.
  Place held(size_t level, int32_t start, int32_t count) const {
    return level == 0 ? first(send(start, count)) : recv(start, count);
  }

  void scatter(size_t level, const std::vector<Rank>& members, size_t place, int32_t owners, int32_t part) {
    if (members.size() == 1) return keep(level, part);
    if (hierarchy_.within != kDirect) return embed_scatter(level, members, place, part);
    Places sources;
    for (size_t i = 0; i < members.size(); ++i) {
      const int32_t start = base_ + static_cast<int32_t>(i) * part;
      if (i != place && i < static_cast<size_t>(owners)) add(lane(), {to(members[i])}, {held(level, start, part)});
      sources.push_back(i == place ? held(level, start, part) : from(members[i]));
    }
    if (place >= static_cast<size_t>(owners)) return;
    const int32_t own = base_ + static_cast<int32_t>(place) * part;
    if (members.size() > kMaxSources) plan_.scratch_chunks = plan_.send_chunks;
    add_split(lane(), {recv(own, part)}, sources, plan::scratch(own, part));
  }

  // A group of one: its contribution enters here.
  void keep(size_t level, int32_t part) {
    if (level == 0) add(lane(), {recv(base_, part)}, {first(send(base_, part))});
  }

  void gather(const std::vector<Rank>& members, size_t place, int32_t owners, int32_t part) {
    if (members.size() == 1) return;
    if (hierarchy_.within != kDirect) return embed_gather(members, place, part);
    Places others;
    for (size_t i = 1; i < members.size(); ++i) others.push_back(to(members[(place + i) % members.size()]));
    if (place < static_cast<size_t>(owners))
      spread(lane(), others, recv(base_ + static_cast<int32_t>(place) * part, part));
    for (size_t i = 0; i < static_cast<size_t>(owners); ++i) {
      if (i != place) add(lane(), {recv(base_ + static_cast<int32_t>(i) * part, part)}, {from(members[i])});
    }
  }

  void embed_part(const Plan& part, const Embedding& embedding) {
    embed(plan_, part, embedding);
    if (part.scratch_chunks > 0) plan_.scratch_chunks = plan_.send_chunks;
  }

  void embed_scatter(size_t level, const std::vector<Rank>& members, size_t place, int32_t part) {
    const BuildOptions options = part_options(static_cast<Rank>(place), static_cast<Rank>(members.size()));
    embed_part(scatter_builder(hierarchy_.within)->build(options),
               {.members = members,
                .send = {level == 0 ? Buffer::kSend : Buffer::kRecv, base_},
                .recv = {Buffer::kRecv, base_ + static_cast<int32_t>(place) * part},
                .scratch = {Buffer::kScratch, base_},
                .block = part,
                .first = level == 0,
                .last = false,
                .first_lane = first_lane_});
  }

  void embed_gather(const std::vector<Rank>& members, size_t place, int32_t part) {
    const BuildOptions options = part_options(static_cast<Rank>(place), static_cast<Rank>(members.size()));
    embed_part(gather_builder(hierarchy_.within)->build(options),
               {.members = members,
                .send = {Buffer::kRecv, base_ + static_cast<int32_t>(place) * part},
                .recv = {Buffer::kRecv, base_},
                .scratch = {Buffer::kScratch, base_},
                .block = part,
                .first = false,
                .last = false,
                .first_lane = first_lane_});
  }

  void reduce_across(int32_t unit) {
    Group all;
    for (int32_t other = 0; other < shape_.last_groups; ++other) all.push_back(other);
    const std::vector<Rank> members = ranks_of(hierarchy_.levels.size(), all);
    if (members.size() == 1) {
      finish(lane(), {recv(base_, length_)}, {recv(base_, length_)});
      return;
    }
    embed_part(find_builder(Collective::kAllReduce, hierarchy_.across)->build(part_options(unit, shape_.last_groups)),
               {.members = members,
                .send = {Buffer::kRecv, base_},
                .recv = {Buffer::kRecv, base_},
                .scratch = {Buffer::kScratch, base_},
                .block = 1,
                .first = false,
                .last = true,
                .first_lane = first_lane_});
  }

  Plan& plan_;
  const BuildOptions& options_;
  const Hierarchy& hierarchy_;
  const Shape& shape_;
  const size_t first_lane_;
  int32_t base_;  // the chunks that our group reduces
  int32_t length_;
  std::vector<size_t> places_;  // ours in its group, at every level below
};

bool builds_within(const Hierarchy& hierarchy) {
  if (hierarchy.within == kDirect) return true;
  if (hierarchy.within != "ring" && hierarchy.within != "circulant" && hierarchy.within != "recursive_halving")
    return false;
  return std::ranges::all_of(hierarchy.levels, [&](const auto& groups) {
    const BuildOptions options = part_options(0, static_cast<Rank>(groups[0].size()));
    return equally_large(groups) && scatter_builder(hierarchy.within)->fits(options) &&
           gather_builder(hierarchy.within)->fits(options);
  });
}

}  // namespace

bool fits_all_reduce(const BuildOptions& options) {
  if (!fits_any(options) || options.hierarchy == nullptr || options.hierarchy->across == "hierarchical") return false;
  const Builder* across = find_builder(Collective::kAllReduce, options.hierarchy->across);
  if (across == nullptr || across->uses_windows() || !builds_within(*options.hierarchy)) return false;
  if (!across->fits(part_options(0, static_cast<Rank>(options.hierarchy->levels.back().size())))) return false;
  const Shape shape(*options.hierarchy);
  return shape.across.lanes.size() * static_cast<size_t>(options.lanes) <= kMaxLanes;
}

Plan all_reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "hierarchical", options);
  const Shape shape(*options.hierarchy);
  const auto lanes = static_cast<int32_t>(shape.across.lanes.size());
  Plan plan =
      begin(Collective::kAllReduce, "hierarchical", options, options.lanes * lanes, options.lanes * shape.chunks);
  plan.message_chunks = shape.message_chunks;
  plan.depth = shape.depth;
  for (int32_t part = 0; part < options.lanes; ++part) Composer(plan, options, shape, part).build();
  return plan;
}

}  // namespace hocket::plan::hierarchical
