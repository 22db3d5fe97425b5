// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Rings of most bandwidth: cycles through all seats that share no wire. An exact search would take too long; a bounded
// one from many beginnings, always the same ones, comes to the bound on the machines that are sold.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/topology.h"
#include "topology/ways.h"

namespace hocket::topology {

struct Rings {
  Reach reach = Reach::kFast;                // which links they use: the fast ones where these join all seats
  std::vector<std::vector<int32_t>> orders;  // places in seats(), each once
  double ring_gb_per_s = 0;                  // of each
  bool too_large = false;                    // not searched: more than the limits in room.h
  double bound_gb_per_s = 0;                 // no schedule has more bus bandwidth over these links
  double gb_per_s() const { return ring_gb_per_s * static_cast<double>(orders.size()); }
};

// None for one seat, where some seat cannot reach another, or where that takes too long.
Rings find_rings(const Topology& topology);

}  // namespace hocket::topology
