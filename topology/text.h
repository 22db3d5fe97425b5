// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The text form of topologies, for people and files:
//
//   hocket topology 1
//   host 0
//   gpu gpu0 sm_90 @0000:11:00.0
//   fabric nvswitch
//   link gpu0 - nvswitch nvlink x18 450 GB/s 0.6 us
//   link gpu0 > nvswitch pci x1 1 GB/s 1 us measured
//
// "-" is a pair of equal links, one for each direction; ">" is one link. "host N" tells where the vertices below it
// are. The model may be missing, and where PCI has a GPU. "measured": its rate was seen, not claimed. Empty lines, and
// what follows a #, are ignored.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "topology/topology.h"

namespace hocket {

inline constexpr size_t kMaxTopologyText = size_t{64} << 20;  // bytes

std::string to_text(const Topology& topology);
// Accepts what to_text() writes and what a person would; the failure names the line and the reason.
Result<Topology> parse_topology(std::string_view text);

}  // namespace hocket
