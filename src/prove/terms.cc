// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "prove/terms.h"

#include <fmt/format.h>

#include <iterator>

namespace hocket::proving {
namespace {

constexpr Rank kWordBits = 64;

size_t word(Rank rank) { return static_cast<size_t>(rank / kWordBits); }
uint64_t bit(Rank rank) { return uint64_t{1} << (rank % kWordBits); }

}  // namespace

size_t Terms::PairHash::operator()(const Pair& pair) const {
  uint64_t mixed = (uint64_t{pair.left} << 32 | pair.right) * 0x9E3779B97F4A7C15u;
  mixed ^= (mixed >> 29) + static_cast<uint64_t>(pair.shift) * 0xBF58476D1CE4E5B9u;
  return mixed * 0x94D049BB133111EBu >> 17;
}

Terms::Terms(Rank ranks) : ranks_(ranks) {
  Term leaf;
  leaf.size = 1;
  leaf.ordered = true;
  leaf.members.assign(word(ranks - 1) + 1, 0);
  leaf.members[0] = 1;
  terms_ = {Term{}, leaf, leaf};
  terms_[kPrimedLeaf].state = State::kPrimed;
}

Rank Terms::turned(int64_t rank) const { return static_cast<Rank>(((rank % ranks_) + ranks_) % ranks_); }

bool Terms::has(const Term& term, Rank rank) const { return (term.members[word(rank)] & bit(rank)) != 0; }

bool Terms::holds(const Value& value, Rank rank) const { return has(term(value), turned(rank - value.shift)); }

bool Terms::holds_first(const Value& value, Rank count) const {
  if (size(value) != count) return false;
  if (count == ranks_) return true;
  for (Rank rank = 0; rank < count; ++rank) {
    if (!holds(value, rank)) return false;
  }
  return true;
}

bool Terms::in_rank_order(const Value& value) const {
  return term(value).ordered && turned(int64_t{term(value).begin} + value.shift) == 0;
}

std::string Terms::contributors(const Value& value) const {
  std::string out = size(value) == 1 ? "rank" : "ranks";
  const char* separator = " ";
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (!holds(value, rank)) continue;
    const Rank begin = rank;
    while (rank + 1 < ranks_ && holds(value, rank + 1)) ++rank;
    fmt::format_to(std::back_inserter(out), "{}{}", separator, begin);
    if (rank > begin) fmt::format_to(std::back_inserter(out), "-{}", rank);
    separator = ", ";
  }
  return out;
}

Rank Terms::missing(const Value& value) const {
  Rank rank = 0;
  while (rank < ranks_ && holds(value, rank)) ++rank;
  return rank;
}

Value Terms::finished(const Value& value) {
  uint32_t result = terms_[value.term].finished;
  if (result == 0) {
    result = static_cast<uint32_t>(terms_.size());
    Term copy = terms_[value.term];
    copy.state = State::kFinished;
    terms_.push_back(std::move(copy));
    terms_[value.term].finished = result;
  }
  return {result, value.shift, value.chunk};
}

Value Terms::combined(const Value& left, const Value& right, Rank* common) {
  const Pair pair{left.term, right.term, turned(int64_t{right.shift} - left.shift)};
  auto found = pairs_.find(pair);
  if (found == pairs_.end()) {
    const Rank overlap = first_common(pair);
    if (overlap >= 0) {
      *common = turned(int64_t{overlap} + left.shift);
      return {};
    }
    found = pairs_.emplace(pair, make_pair(pair)).first;
  }
  return {found->second, left.shift, left.chunk};
}

Rank Terms::first_common(const Pair& pair) const {
  const Term& left = terms_[pair.left];
  const Term& right = terms_[pair.right];
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (has(right, rank) && has(left, turned(int64_t{rank} + pair.shift))) return turned(int64_t{rank} + pair.shift);
  }
  return -1;
}

uint32_t Terms::make_pair(const Pair& pair) {
  Term result = terms_[pair.left];
  const Term& right = terms_[pair.right];
  for (Rank rank = 0; rank < ranks_; ++rank) {
    const Rank place = turned(int64_t{rank} + pair.shift);
    if (has(right, rank)) result.members[word(place)] |= bit(place);
  }
  result.ordered = result.ordered && right.ordered &&
                   turned(int64_t{result.begin} + result.size) == turned(int64_t{right.begin} + pair.shift);
  result.size += right.size;
  result.finished = 0;
  terms_.push_back(std::move(result));
  return static_cast<uint32_t>(terms_.size() - 1);
}

}  // namespace hocket::proving
