// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What is odd about a topology: devices that should be equal and are not, links that go one way only. Each is told with
// what it costs. A machine whose GPUs have lost a link works, only slowly, so that nobody else would tell.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.h"

namespace hocket::topology {

// One line each, naming the devices; none for a machine as it should be.
std::vector<std::string> faults(const Topology& topology);

}  // namespace hocket::topology
