// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which seats are near each other, as hierarchical plans need it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace hocket::topology {

// All seats, by place in seats(), in groups; groups and their members ascend.
struct Level {
  std::string name;  // "pci", "numa", "host"
  std::vector<std::vector<int32_t>> groups;
};

// Innermost first: what hangs below one PCI switch, on one NUMA node, in one host. Only those that part the seats in
// several groups, not all of one seat, and otherwise than the one inside.
std::vector<Level> levels(const Topology& topology);

// Seats of different hosts that belong together, because a rail of NICs joins them: whose nearest NICs have one name;
// of several at one NIC the first of each host, the second of each, and so on. In the order of the names.
std::vector<std::vector<int32_t>> rails(const Topology& topology);

}  // namespace hocket::topology
