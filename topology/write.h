// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Topologies as other programs read and write them. Their forms hold less than ours: what is written is read again, and
// where that is another machine, remarks say what it has lost.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "topology/read.h"
#include "topology/rings.h"
#include "topology/topology.h"
#include "topology/trees.h"

namespace hocket::topology {

struct Writing {
  std::string text;
  std::vector<std::string> remarks;
};

// NCCL's topology, as a full dump. GPUs that nobody knows a place of on PCI get one that no machine has. Fails where
// there are no GPUs, or devices hang deeper than files may be.
Result<Writing> write_nccl(const Topology& topology);
// The matrix of `nvidia-smi topo -m`. Fails where there are no GPUs, several hosts, or too many devices.
Result<Writing> write_smi(const Topology& topology);

// hwloc's XML, with a processor for each core complex, or NUMA node. Fails where there are several hosts.
Result<Writing> write_hwloc(const Topology& topology);

// What was found, as NCCL writes its own: the rings, and those of the trees that are chains, since NCCL has no others.
std::vector<NcclGraph> nccl_graphs(const Rings& rings, const Trees& trees);
std::string write_nccl_graphs(std::span<const NcclGraph> graphs);

// What was written, and what it has lost. Fails where it cannot be read again: there is more of something than may be.
Result<Writing> read_again(const Topology& topology, Result<std::string> text);
// How a topology that was read from what was written differs, as far as ranks can tell: empty where it does not.
std::vector<std::string> differences(const Topology& topology, const Topology& again);

}  // namespace hocket::topology
