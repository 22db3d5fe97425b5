// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What `hocket topo --measure` finds: this machine by itself, and, where a launcher started several, what goes between
// the ranks.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "topology/topology.h"

namespace hocket::tool {

struct Measured {
  Topology topology;  // with what was seen in place of what was claimed
  std::string report;
};

// Called by every rank that was launched; nothing where another rank tells it. `claimed` is this machine.
Result<std::optional<Measured>> measure(const Topology& claimed);

}  // namespace hocket::tool
