// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A picture of a topology.
#pragma once

#include <string>

#include "topology/rings.h"
#include "topology/topology.h"
#include "topology/trees.h"

namespace hocket::topology {

// SVG: the seats in a circle with the links between them, as wide as their wires; what is shared stands inside; rings
// run around in colours of their own, up to twelve of them. Beside that the same with the trees, whose roots are
// ringed.
std::string draw_svg(const Topology& topology, const Rings& rings, const Trees& trees);

}  // namespace hocket::topology
