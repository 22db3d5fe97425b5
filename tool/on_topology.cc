// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "on_topology.h"

#include "choose/loads.h"
#include "topology/rings.h"
#include "topology/trees.h"

namespace hocket::tool {

OnTopology search(const Topology& topology) {
  OnTopology found;
  found.hierarchy = hierarchy_of(placement_on(topology));
  if (topology.seats().size() > static_cast<size_t>(kMaxRoutedRanks)) return found;
  found.rings = topology::find_rings(topology).orders;
  found.trees = topology::find_trees(topology).parents;
  return found;
}

}  // namespace hocket::tool
