// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which algorithm, and how it is cut into passes and slices. Decided only from values that are equal on all ranks, so
// that all ranks decide alike without asking.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "plan/builders.h"

namespace hocket {

struct Question {
  Collective collective = Collective::kAllReduce;
  Rank ranks = 1;
  Rank root = 0;
  size_t bytes = 0;      // what one rank contributes or receives, whichever is more (v-forms: 0, not known everywhere)
  bool ordered = false;  // the operation does not commute
  bool equal_chunks = true;    // false: v-form
  bool in_place = false;       // where that decides the algorithm
  bool listed_counts = false;  // v-form whose counts all ranks know
};

// The user's wish: an algorithm for a collective, or for all that have one of that name.
class Forced {
 public:
  // "ring" or "all_reduce=ring,broadcast=chain"; fails on names that do not exist, listing those that do.
  static Result<Forced> parse(std::string_view text);
  // Empty: no wish.
  std::string_view of(Collective collective) const;

 private:
  std::string any_;
  std::map<Collective, std::string> named_;
};

// Fails only when the forced algorithm cannot do it.
Result<const Builder*> choose(const Question& question, const Forced& forced);

// The names of a collective's algorithms, comma-separated.
std::string algorithm_names(Collective collective);

struct Cut {
  size_t window_bytes = 0;  // of a chunk, in one pass
  size_t slice_bytes = 0;   // of a message
};

// As large as the pipes allow: a step's message of one pass fits `depth` times into a pipe of kPipeDepth slices.
Cut cut(const Plan& plan, size_t max_message);

}  // namespace hocket
