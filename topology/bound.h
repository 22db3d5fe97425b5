// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How fast an all-gather can be at most, whatever its schedule.
#pragma once

#include "topology/topology.h"
#include "topology/ways.h"

namespace hocket::topology {

inline constexpr size_t kMaxBoundSeats = 128;

// GB/s of the bus: what the rings of an all-gather carry together can not be more. By the trees that could be packed
// (L. Zhao et al., "ForestColl"): if every seat is fed at rate x, every seat must be able to take them all. 0 for one
// seat, or where a seat is not reached; with more than kMaxBoundSeats, what the narrowest seat takes in or gives out.
// Where the links are so many that the least bound takes too long to find, what was found by then.
double bus_bound_gb_per_s(const Topology& topology, Reach reach);

}  // namespace hocket::topology
