// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a topology's search says of choosing: the routes that plans may take, and how long each algorithm occupies its
// busiest link. Computed once, kept in a tuning file. Rank r sits on the topology's seat r.
#pragma once

#include "base/status.h"
#include "choose/tuning.h"
#include "topology/topology.h"

namespace hocket {

inline constexpr Rank kMaxRoutedRanks = 128;

// Of ranks on a topology's seats: their hosts, and where there are several, their rails.
Placement placement_on(const Topology& topology);

// Fails where there are more seats, or one cannot reach another.
Result<Routes> find_routes(const Topology& topology);

}  // namespace hocket
