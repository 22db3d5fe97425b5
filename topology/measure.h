// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What this machine's memory and cores do when they are asked, instead of what makers claim. Takes seconds, so only who
// wishes it calls it.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "topology/machine.h"
#include "topology/pair.h"
#include "topology/topology.h"

namespace hocket::topology {

// Cpus that read together what lies on a NUMA node.
struct MemoryRate {
  std::string reader;  // a vertex: a core complex, or another NUMA node
  std::string node;    // a vertex
  double gb_per_s = 0;
};

struct Measurements {
  std::vector<MemoryRate> memory;
  std::vector<CorePair> cores;  // of each complex its first two, and the first ones of each two complexes
};

// Of the vertices that discover() makes of the machine. What cannot be measured, as nodes without cpus, is left out.
Measurements measure(const Machine& machine);

// A host's way into the network as its ranks saw it.
struct NetworkRate {
  double gb_per_s = 0;
  double latency_us = 0;  // from one host to another
};

// The links that were measured, with the rate that was seen, and marked; all others stay as they are claimed.
Result<Topology> with_measured(const Topology& claimed, const Measurements& seen);
// The same of the only NIC; of several, nobody knows which one it was: all stay.
Result<Topology> with_measured(const Topology& claimed, const NetworkRate& seen);

// Links that carry less than half of what is claimed: one line each.
std::vector<std::string> slow_links(const Topology& claimed, const Topology& measured);

}  // namespace hocket::topology
