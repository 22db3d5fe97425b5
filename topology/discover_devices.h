// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// This host as a topology: the processors that Machine knows, and the GPUs, RDMA devices and network interfaces that
// Linux lists.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/gid.h"
#include "base/status.h"
#include "topology/machine.h"
#include "topology/topology.h"

namespace hocket::topology {

struct RdmaPort {
  std::string name;    // "mlx5_0", or "mlx5_0:2" of a second port
  std::string device;  // its folder
  double gb_per_s = 0;
  std::optional<Gid> gid;  // by which it is best reached
};
// As Linux lists them, below `root`.
std::vector<RdmaPort> rdma_ports(const std::string& root = "");

// Reads below `root`, which is empty except in tests. Devices whose NUMA node is not told are put on the first one.
Result<Topology> discover(const Machine& machine, const std::string& root = "");

}  // namespace hocket::topology
