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
// An attribute of adapters that are none: the port in it hangs where they do.
inline constexpr const char* kInventedAdapter = "invented";
// What `lstopo` writes; a machine without GPUs has its core complexes.
Result<Reading> read_hwloc(const XmlElement& topology);
// `nvidia-smi topo -m`.
inline constexpr size_t kMaxSmiDevices = 256;
inline constexpr int32_t kMostNvlinks = 18;  // of a GPU; cells that ask for more all lead to the same switch
Result<Reading> read_smi(std::string_view text);
// The network files of ASTRA-sim: rings, switches and groups of all with all, in dimensions.
Result<Reading> read_astra(std::string_view text);
bool begins_like_astra(std::string_view text);
// NCCL's graph file: what its own search found. A channel is a list of GPUs by number.
struct NcclGraph {
  int64_t pattern = 0;        // what the channels are: the names below, and others
  double speed_gb_per_s = 0;  // of a channel
  std::vector<std::vector<int32_t>> channels;
  bool over_nvlinks = false;  // and nothing else, within a host
  friend bool operator==(const NcclGraph&, const NcclGraph&) = default;
};
inline constexpr int64_t kNcclTree = 1;
inline constexpr int64_t kNcclRing = 4;
inline constexpr int64_t kNcclMulticast = 5;
Result<std::vector<NcclGraph>> read_nccl_graphs(const XmlElement& graphs);
Result<std::vector<NcclGraph>> read_nccl_graphs(std::string_view text);

}  // namespace hocket::topology
