// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Topologies from what other programs write. Files come from outside: what cannot be a topology is refused with its
// line, and what can be but is odd becomes a remark. Where a file tells no speed, that of its kind of device is
// assumed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/xml.h"
#include "topology/topology.h"

namespace hocket::topology {

struct Reading {
  Topology topology;
  std::vector<std::string> remarks;
};

// Any of the kinds below, or our own text, by how it begins.
Result<Reading> read(std::string_view text);

// NCCL's and RCCL's topology: templates, which hold the PCI tree only, and full dumps; of one host or several.
Result<Reading> read_nccl(const XmlElement& system);
// What `lstopo` writes; a machine without GPUs has its core complexes.
Result<Reading> read_hwloc(const XmlElement& topology);
// `nvidia-smi topo -m`.
Result<Reading> read_smi(std::string_view text);
// The network files of ASTRA-sim: rings, switches and groups of all with all, in dimensions.
Result<Reading> read_astra(std::string_view text);
bool begins_like_astra(std::string_view text);
// NCCL's graph file: what its own search found. A channel is a list of GPUs by number.
struct NcclGraph {
  int64_t pattern = 0;
  double speed_gb_per_s = 0;  // of a channel
  std::vector<std::vector<int32_t>> channels;
};
Result<std::vector<NcclGraph>> read_nccl_graphs(const XmlElement& graphs);
Result<std::vector<NcclGraph>> read_nccl_graphs(std::string_view text);

}  // namespace hocket::topology
