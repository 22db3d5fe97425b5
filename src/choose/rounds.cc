// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The longest chain of messages of each algorithm, each sent after the one before has been received. The verifier's
// count is the same for all numbers of ranks that it is asked for (tests/choose/demand_test.cc).
#include <algorithm>
#include <array>
#include <bit>

#include "choose/demand.h"
#include "plan/coded.h"

namespace hocket {
namespace {

using enum Collective;

int32_t floor_log(Rank ranks) { return static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(ranks))) - 1; }
int32_t ceil_log(Rank ranks) { return static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(ranks) - 1)); }
Rank beyond(Rank ranks) { return ranks - static_cast<Rank>(std::bit_floor(static_cast<uint32_t>(ranks))); }
// Ranks beyond a power of two give their part to another one before, and get the result after. Pairs of ranks that both
// take one meet only where there are many.
int32_t fold(Rank ranks) {
  if (beyond(ranks) == 0) return 0;
  return beyond(ranks) > (ranks - beyond(ranks)) / 2 ? 2 : 1;
}

int32_t one(Rank) { return 1; }
int32_t two(Rank) { return 2; }
int32_t once_around(Rank ranks) { return ranks - 1; }
int32_t twice_around(Rank ranks) { return 2 * (ranks - 1); }
int32_t doubling(Rank ranks) { return floor_log(ranks) + fold(ranks); }
int32_t halving_and_doubling(Rank ranks) { return 2 * (floor_log(ranks) + (beyond(ranks) > 0 ? 1 : 0)); }
// A rank takes what comes before it sends on.
int32_t in_turn(Rank ranks) { return ranks == 2 ? 1 : ranks; }
int32_t log_once(Rank ranks) { return ceil_log(ranks); }
int32_t log_twice(Rank ranks) { return 2 * ceil_log(ranks); }
int32_t tree_twice(Rank ranks) { return 2 * floor_log(ranks); }
// The deepest rank of the tree is an odd one, whose part its neighbour has from the tree: the gather's first message is
// spared. Not of two ranks, and where the last one is as deep, and even.
int32_t scatter_and_gather(Rank ranks) {
  const bool is_spared = ranks > 2 && !std::has_single_bit(static_cast<uint32_t>(ranks) + 1);
  return floor_log(ranks) + ceil_log(ranks - 1) - (is_spared ? 1 : 0);
}
// Of each half its tree, and the exchange of the two roots.
int32_t two_halves(Rank ranks) { return floor_log((ranks + 1) / 2) + 1 + (ranks > 3 ? floor_log(ranks / 2) : 0); }

// Of default options.
constexpr int32_t kRadix = 4;
int32_t digits(Rank ranks) {
  int32_t count = 0;
  for (int64_t reach = 1; reach < ranks; reach *= kRadix) ++count;
  return count;
}
// As deep as positions below `ranks` have digits that are not zero; the first with one more has ones only.
int32_t knomial_tree_twice(Rank ranks) {
  int32_t depth = 0;
  for (int64_t deepest = 1; deepest < ranks; deepest = deepest * kRadix + 1) ++depth;
  return 2 * depth;
}
// The farthest of a power of two has the label of ones only; where it folds with another, the tree is deeper by one.
int32_t bine_tree(Rank ranks) {
  const int32_t levels = floor_log(ranks);
  const int64_t members = int64_t{1} << levels;
  const int64_t farthest = levels % 2 == 1 ? (2 * members - 1) / 3 : (members + 2) / 3;
  return levels + (beyond(ranks) > farthest ? 1 : 0);
}
int32_t bine_tree_twice(Rank ranks) { return 2 * bine_tree(ranks); }
// Messages of at most kRadix chunks: the last distances take several.
int32_t bounded_doubling(Rank ranks) {
  return ceil_log(ranks) < 3 ? ceil_log(ranks) : (1 << (ceil_log(ranks) - 2)) + 1;
}

// As many blocks as bits. Powers of two take all rounds of the schedule; else a rank waits in fewer of them.
int32_t blocks_over_circulant(Rank ranks) {
  const int32_t bits = ceil_log(ranks);
  if (beyond(ranks) == 0) return 2 * bits - 1;
  return 2 * bits - (8 * int64_t{ranks} < 5 * (int64_t{1} << bits) ? 3 : 2);
}

enum class Pattern : uint8_t {
  kInLine,     // of rings and trees: in the mean, a rank hears from fewer than two others
  kUpAndDown,  // the same, of trees to a root and back
  kSeveral,
  kToAll,  // every rank sends to every other one
};
using enum Pattern;

struct Row {
  Collective collective;
  std::string_view algorithm;
  int32_t (*rounds)(Rank ranks);
  Pattern pattern = kSeveral;
};

constexpr std::array kRows = {
    Row{kAllReduce, "ring", twice_around, kInLine},
    Row{kAllReduce, "routed_rings", twice_around, kInLine},
    Row{kAllReduce, "recursive_doubling", doubling},
    Row{kAllReduce, "rabenseifner", halving_and_doubling},
    Row{kAllReduce, "circulant", log_twice},
    Row{kAllReduce, "binomial", tree_twice, kUpAndDown},
    Row{kAllReduce, "knomial", knomial_tree_twice, kUpAndDown},
    Row{kAllReduce, "chain", twice_around, kUpAndDown},
    Row{kAllReduce, "pairwise", twice_around, kToAll},
    Row{kAllReduce, "one_shot", one, kToAll},
    Row{kAllReduce, "two_shot", two, kToAll},
    Row{kAllReduce, "bine", bine_tree_twice, kUpAndDown},
    Row{kAllReduce, "dual_root", two_halves, kUpAndDown},
    Row{kAllReduce, "swing", log_twice},
    Row{kBroadcast, "binomial", floor_log, kInLine},
    Row{kBroadcast, "bine", bine_tree, kInLine},
    Row{kBroadcast, "scatter_all_gather", scatter_and_gather},
    Row{kBroadcast, "chain", once_around, kInLine},
    Row{kBroadcast, "circulant", blocks_over_circulant},
    Row{kBroadcast, "direct", one, kInLine},
    Row{kReduce, "binomial", floor_log, kInLine},
    Row{kReduce, "bine", bine_tree, kInLine},
    Row{kReduce, "chain", once_around, kInLine},
    Row{kReduce, "circulant", blocks_over_circulant},
    Row{kReduce, "direct", one, kInLine},
    Row{kAllGather, "ring", once_around, kInLine},
    Row{kAllGather, "recursive_doubling", log_once},
    Row{kAllGather, "circulant", log_once},
    Row{kAllGather, "sparbit", log_once},
    Row{kAllGather, "kbruck", digits},
    Row{kAllGather, "pat", bounded_doubling},
    Row{kAllGather, "direct", one, kToAll},
    Row{kReduceScatter, "ring", once_around, kInLine},
    Row{kReduceScatter, "recursive_halving", log_once},
    Row{kReduceScatter, "circulant", log_once},
    Row{kReduceScatter, "pat", bounded_doubling},
    Row{kReduceScatter, "direct", one, kToAll},
    Row{kAllToAll, "direct", one, kToAll},
    Row{kAllToAll, "pairwise", in_turn, kToAll},
    Row{kAllToAll, "bruck", log_once},
    Row{kAllToAll, "kbruck", digits},
    Row{kGather, "binomial", floor_log, kInLine},
    Row{kGather, "direct", one, kInLine},
    Row{kScatter, "binomial", floor_log, kInLine},
    Row{kScatter, "direct", one, kInLine},
    Row{kBarrier, "dissemination", log_once},
    Row{kScan, "doubling", floor_log},
    Row{kScan, "chain", once_around, kInLine},
    Row{kExScan, "doubling", log_once},
    Row{kExScan, "chain", once_around, kInLine},
};

const Row* find_row(Collective collective, std::string_view algorithm) {
  const auto found = std::ranges::find_if(
      kRows, [&](const Row& row) { return row.collective == collective && row.algorithm == algorithm; });
  return found == kRows.end() ? nullptr : &*found;
}

}  // namespace

std::optional<int32_t> rounds(Collective collective, std::string_view algorithm, Rank ranks) {
  const Row* row = find_row(collective, algorithm);
  if (row == nullptr) return std::nullopt;
  return ranks == 1 ? 0 : row->rounds(ranks);
}

bool sends_to_all(Collective collective, std::string_view algorithm) {
  const Row* row = find_row(collective, algorithm);
  return row != nullptr && row->pattern == kToAll;
}

bool goes_in_line(Collective collective, std::string_view algorithm) {
  const Row* row = find_row(collective, algorithm);
  return row != nullptr ? row->pattern == kInLine || row->pattern == kUpAndDown : algorithm == "routed_trees";
}

int32_t rounds_of_rank(Collective collective, std::string_view algorithm, int32_t rounds) {
  const Row* row = find_row(collective, algorithm);
  const bool turns =
      row != nullptr ? row->pattern == kUpAndDown : algorithm == "routed_trees" && collective == kAllReduce;
  return turns ? (rounds + 1) / 2 : rounds;
}

std::optional<int32_t> tree_rounds(Collective collective, std::span<const std::vector<Rank>> trees, Rank root) {
  int32_t most = 0;
  for (const std::vector<Rank>& parents : trees) {
    const auto above = [&](Rank rank) { return parents[static_cast<size_t>(rank)]; };
    const auto generations = [&](Rank rank) {
      int32_t count = 0;
      for (; above(rank) != rank; rank = above(rank)) ++count;
      return count;
    };
    // From one rank to another it is up to where their ways meet, and down.
    const auto distance = [&](Rank one, Rank other) {
      int32_t count = 0;
      for (; one != other; ++count) {
        Rank& lower = generations(one) > generations(other) ? one : other;
        lower = above(lower);
      }
      return count;
    };
    for (Rank rank = 0; rank < static_cast<Rank>(parents.size()); ++rank)
      most = std::max(most, collective == kAllReduce ? 2 * generations(rank) : distance(rank, root));
  }
  return most;
}

// Of each group of the last level, beginning with the root's.
std::vector<int32_t> sizes_of_groups(const Hierarchy& hierarchy, Rank ranks, Rank root) {
  const std::vector<int32_t> group_of = groups_of(hierarchy, ranks);
  std::vector<int32_t> sizes(hierarchy.levels.back().size());
  const size_t first = static_cast<size_t>(group_of[static_cast<size_t>(root)]);
  for (const int32_t group : group_of) ++sizes[(static_cast<size_t>(group) + sizes.size() - first) % sizes.size()];
  return sizes;
}

// Broadcasts go from one group to the next, and once inside; reduces the other way, and between groups at once. For the
// others, members deal with one block after the other, of which the first of a group has most
// (plan/algorithms/between_groups.cc).
int32_t rounds_between(Collective collective, const std::vector<int32_t>& sizes) {
  int32_t most = collective == kReduceScatter || collective == kAllGather ? 1 : 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int32_t inside = sizes[i] > 1 ? 1 : 0;
    if (collective == kBroadcast) most = std::max(most, static_cast<int32_t>(i) + inside);
    if (collective == kReduce) most = std::max(most, std::min(static_cast<int32_t>(i), 1) + inside);
    if (inside == 0 || collective == kBroadcast || collective == kReduce) continue;
    int32_t blocks = 0;
    for (const int32_t others : sizes) blocks += (others + sizes[i] - 1) / sizes[i];
    most = std::max(most, collective == kReduceScatter ? blocks + 1 : blocks);
  }
  return most;
}

// Each level's groups scatter and gather directly; groups of one have nothing to do. An all-to-all hands over
// inside, for one group after the other, what one member then sends for all.
std::optional<int32_t> hierarchical_rounds(Collective collective, const BuildOptions& options) {
  const Hierarchy& hierarchy = *options.hierarchy;
  const auto alone = [](const auto& groups) {
    return std::ranges::all_of(groups, [](const auto& group) { return group.size() == 1; });
  };
  const auto groups = static_cast<int32_t>(hierarchy.levels[0].size());
  if (collective == kAllToAll) return alone(hierarchy.levels[0]) || groups == 1 ? 1 : groups + 1;
  if (collective != kAllReduce)
    return rounds_between(collective, sizes_of_groups(hierarchy, options.ranks, options.root));
  if (hierarchy.within != "direct") return std::nullopt;
  std::optional<int32_t> chain =
      rounds(collective, hierarchy.across, static_cast<Rank>(hierarchy.levels.back().size()));
  for (const auto& level : hierarchy.levels) {
    if (chain.has_value() && !alone(level)) *chain += 2;
  }
  return chain;
}

}  // namespace hocket
