// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Algorithms for powers of two run on any number of ranks: of the first pairs of neighbours, the odd rank hands its
// data to the even one before and gets the result after. The even ranks and those without a pair are the members.
#pragma once

#include "plan/builders.h"
#include "plan/write.h"

namespace hocket::plan {

class Fold {
 public:
  explicit Fold(const BuildOptions& options)
      : rank_(options.rank), members_(power_of_two_at_most(options.ranks)), pairs_(options.ranks - members_) {}

  int32_t members() const { return members_; }
  int32_t pairs() const { return pairs_; }
  bool paired() const { return rank_ < 2 * pairs_; }
  bool is_member() const { return !paired() || rank_ % 2 == 0; }
  // The other rank of our pair.
  Rank partner() const { return rank_ ^ 1; }
  int32_t member() const { return paired() ? rank_ / 2 : rank_ - pairs_; }
  Rank rank_of(int32_t member) const { return member < pairs_ ? 2 * member : member + pairs_; }

 private:
  Rank rank_;
  int32_t members_;
  int32_t pairs_;
};

}  // namespace hocket::plan
