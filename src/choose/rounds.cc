// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The longest chain of messages of each algorithm, each sent after the one before has been received. The verifier's
// count is the same for all numbers of ranks that it is asked for (tests/choose/demand_test.cc).
#include <array>
#include <bit>

#include "choose/demand.h"

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

struct Row {
  Collective collective;
  std::string_view algorithm;
  int32_t (*rounds)(Rank ranks);
};

constexpr std::array kRows = {
    Row{kAllReduce, "ring", twice_around},
    Row{kAllReduce, "recursive_doubling", doubling},
    Row{kAllReduce, "rabenseifner", halving_and_doubling},
    Row{kAllReduce, "circulant", log_twice},
    Row{kAllReduce, "binomial", tree_twice},
    Row{kAllReduce, "chain", twice_around},
    Row{kAllReduce, "one_shot", one},
    Row{kAllReduce, "two_shot", two},
    Row{kBroadcast, "binomial", floor_log},
    Row{kBroadcast, "chain", once_around},
    Row{kBroadcast, "direct", one},
    Row{kReduce, "binomial", floor_log},
    Row{kReduce, "chain", once_around},
    Row{kReduce, "direct", one},
    Row{kAllGather, "ring", once_around},
    Row{kAllGather, "recursive_doubling", log_once},
    Row{kAllGather, "circulant", log_once},
    Row{kAllGather, "direct", one},
    Row{kReduceScatter, "ring", once_around},
    Row{kReduceScatter, "recursive_halving", log_once},
    Row{kReduceScatter, "circulant", log_once},
    Row{kReduceScatter, "direct", one},
    Row{kAllToAll, "direct", one},
    Row{kAllToAll, "pairwise", in_turn},
    Row{kAllToAll, "bruck", log_once},
    Row{kGather, "binomial", floor_log},
    Row{kGather, "direct", one},
    Row{kScatter, "binomial", floor_log},
    Row{kScatter, "direct", one},
};

}  // namespace

std::optional<int32_t> rounds(Collective collective, std::string_view algorithm, Rank ranks) {
  for (const Row& row : kRows) {
    if (row.collective == collective && row.algorithm == algorithm) return ranks == 1 ? 0 : row.rounds(ranks);
  }
  return std::nullopt;
}

}  // namespace hocket
