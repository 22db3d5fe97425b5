// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What plans can be built with that is known of a topology whose every seat has its rank.
#pragma once

#include <optional>
#include <vector>

#include "plan/builders.h"
#include "plan/hierarchy.h"
#include "topology/topology.h"

namespace hocket::tool {

struct OnTopology {
  std::vector<std::vector<Rank>> rings;
  std::vector<std::vector<Rank>> trees;
  std::optional<Hierarchy> hierarchy;  // its hosts, by rails; nothing for one

  // They point into this.
  void offer(BuildOptions& options) const {
    options.routes = rings;
    options.trees = trees;
    options.hierarchy = hierarchy ? &*hierarchy : nullptr;
  }
};

// Rings and trees of more seats than kMaxRoutedRanks are not looked for.
OnTopology search(const Topology& topology);

}  // namespace hocket::tool
