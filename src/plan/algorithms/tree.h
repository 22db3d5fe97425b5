// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a rank does at its place in a tree, whatever the tree.
#pragma once

#include <string_view>
#include <vector>

#include "plan/builders.h"
#include "plan/write.h"

namespace hocket::plan::tree {

struct Node {
  bool is_root = false;
  Rank parent = 0;
  std::vector<Rank> children;  // smallest and nearest subtree first
};

// Every lane does the same with a part of the data. A rank combines its own data and then, in their order, what its
// children send, in one step.
Plan all_reduce(std::string_view name, const BuildOptions& options, const Node& self);
Plan broadcast(std::string_view name, const BuildOptions& options, const Node& self);
Plan reduce(std::string_view name, const BuildOptions& options, const Node& self);

// What they do in one lane, with the chunk of its number.
void send_down(Plan& plan, int32_t chunk, const Node& self);
void combine_up(Plan& plan, int32_t chunk, const Node& self);

// All-reduce of one chunk in two lanes, 2 * chunk and the next, so that the results of a pass come down while the next
// pass goes up.
void up_and_down(Plan& plan, int32_t chunk, const Node& self);

Places and_children(Places places, const Node& self);
// The largest subtree first: it takes longest.
Places and_to_children(Places places, const Node& self);

}  // namespace hocket::plan::tree
