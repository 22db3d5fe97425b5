// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What is asked when an algorithm is chosen, all of it equal on all ranks, and which algorithms cannot be the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "choose/coding_cost.h"
#include "choose/cut.h"
#include "plan/builders.h"

namespace hocket {

struct Question {
  Collective collective = Collective::kAllReduce;
  Rank ranks = 1;
  Rank root = 0;
  size_t bytes = 0;      // what one rank contributes or receives, whichever is more (v-forms: 0, not known everywhere)
  bool ordered = false;  // the operation does not commute
  bool left_to_right = false;  // the sum of every element has one and the same order of operations
  bool equal_chunks = true;    // false: v-form
  bool coded = false;          // messages carry a codec's encoding ...
  CodingCost coding = {};      // ... which costs this
  bool in_place = false;       // where that decides the algorithm
  bool listed_counts = false;  // v-form whose counts all ranks know
  bool send_window = false;    // all ranks' send buffers lie at the same place of a window
  bool recv_window = false;    // the same of the receive buffers
  bool recv_pages = false;     // these fill pages on which nothing else lies
  bool own = false;            // the library's own call, which no wish concerns
  friend bool operator==(const Question&, const Question&) = default;
};

// Why an algorithm of the collective cannot do it, even where it fits, with messages of so many bytes; empty: nothing
// is in the way.
std::string_view obstacle(const Builder& builder, const Question& question, size_t max_message);

// Whether a call that would be cut so without a codec gives all ranks the same bits: what is encoded twice must be
// encoded in whole blocks.
bool keeps_blocks(const Builder& builder, const CodingCost& coding, const Cut& plain);

// The algorithm of calls whose messages are encoded: each contribution once and each result once, whatever the number
// of ranks. Null: none such.
const Builder* coded_builder(Collective collective, Rank ranks);

// How often plans of a call that has a codec encode what one rank contributes, at most. Nothing: their ranks would end
// with different bits, or nobody has proved that they do not.
std::optional<int32_t> encodings(const Builder& builder, Rank ranks);

}  // namespace hocket
