// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// This host as a topology: the processors that Machine knows, and the GPUs, RDMA devices and network interfaces that
// Linux lists.
#pragma once

#include <string>

#include "base/status.h"
#include "topology/machine.h"
#include "topology/topology.h"

namespace hocket::topology {

// Reads below `root`, which is empty except in tests. Devices whose NUMA node is not told are put on the first one.
Result<Topology> discover(const Machine& machine, const std::string& root = "");

}  // namespace hocket::topology
