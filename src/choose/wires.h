// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans that are synthesised for a topology: what its seats are joined by, as wires, and what a search has found on
// them.
#pragma once

#include "base/status.h"
#include "plan/synthesise.h"
#include "topology/topology.h"

namespace hocket {

struct OnWires {
  Synthesis synthesis;
  size_t wires = 0;
  double bus_gb_per_s = 0;    // as rings are measured
  double bound_gb_per_s = 0;  // no schedule has more over these links
};

// Over links between GPUs where these join all seats, else over all links. Rank r sits on seat r. Fails as synthesise
// does, and where there is too much to be searched.
Result<OnWires> synthesise_on(Collective collective, const Topology& topology);

}  // namespace hocket
