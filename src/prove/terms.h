// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a chunk holds, as a symbol: a term says whose contributions were combined, in which order and association, and
// which marks they met. Equal combinations are one term, also when all ranks are shifted around the circle: that keeps
// the number of terms small where every rank does the same, and still names every contribution.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace hocket::proving {

struct Value {
  uint32_t term = 0;  // 0: nothing has been written
  Rank shift = 0;     // the term's rank 0 is this rank
  int32_t chunk = 0;  // which chunk of the contributors' send buffers

  bool defined() const { return term != 0; }
  friend bool operator==(const Value&, const Value&) = default;
};

class Terms {
 public:
  enum class State : uint8_t { kRaw, kPrimed, kFinished };  // before `first`, between, after `last`

  explicit Terms(Rank ranks);

  static Value contribution(Rank rank, int32_t chunk) { return {kRawLeaf, rank, chunk}; }

  State state(const Value& value) const { return term(value).state; }
  int32_t size(const Value& value) const { return term(value).size; }
  bool holds(const Value& value, Rank rank) const;
  // Exactly the contributions of ranks [0, count).
  bool holds_first(const Value& value, Rank count) const;
  // The contributions combine in rank order, beginning with rank 0's.
  bool in_rank_order(const Value& value) const;
  // "ranks 0-3, 5"
  std::string contributors(const Value& value) const;
  // The first rank that is missing.
  Rank missing(const Value& value) const;

  static Value primed(const Value& raw) { return {kPrimedLeaf, raw.shift, raw.chunk}; }
  Value finished(const Value& value);
  // left op right. Undefined when they have a contribution in common: `common` tells one.
  Value combined(const Value& left, const Value& right, Rank* common);

 private:
  static constexpr uint32_t kRawLeaf = 1;
  static constexpr uint32_t kPrimedLeaf = 2;

  struct Term {
    State state = State::kRaw;
    int32_t size = 0;
    Rank begin = 0;        // in cyclic rank order, beginning here ...
    bool ordered = false;  // ... if so
    uint32_t finished = 0;
    std::vector<uint64_t> members;
  };

  struct Pair {
    uint32_t left = 0;
    uint32_t right = 0;
    Rank shift = 0;  // of right against left
    friend bool operator==(const Pair&, const Pair&) = default;
  };

  struct PairHash {
    size_t operator()(const Pair& pair) const;
  };

  const Term& term(const Value& value) const { return terms_[value.term]; }
  Rank turned(int64_t rank) const;
  bool has(const Term& term, Rank rank) const;
  uint32_t make_pair(const Pair& pair);
  Rank first_common(const Pair& pair) const;

  Rank ranks_;
  std::vector<Term> terms_;
  std::unordered_map<Pair, uint32_t, PairHash> pairs_;
};

}  // namespace hocket::proving
