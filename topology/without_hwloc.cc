// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Takes the place of discover_hwloc.cc in builds without hwloc.

#include "topology/discover.h"

namespace hocket::topology {

std::optional<Machine> discover_hwloc(const CpuList&) { return std::nullopt; }

}  // namespace hocket::topology
