// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The matrices at the end of hwloc's XML: what links carry between objects of its tree. Does not know the tree.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "topology/parts.h"
#include "topology/topology.h"

namespace hocket::topology {

// Of vertices: the type and the number of the object that each is.
using HwlocObjects = std::map<int32_t, std::pair<std::string_view, int64_t>>;

std::string hwloc_matrices(const Topology& topology, const Parts& parts, const HwlocObjects& objects);

}  // namespace hocket::topology
