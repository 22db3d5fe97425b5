// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Who shares cores. Ranks of one kernel do, also those in containers of their own; ranks that are bound to cores of
// their own do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/mesh.h"

namespace hocket {

struct Crowd {
  int32_t ranks = 0;
  int32_t cores = 0;  // that at least one of them may run on
  bool shares_cores() const { return ranks > cores; }
  // What a rank has of something that each core has so much of.
  size_t share(size_t of_core) const {
    return shares_cores() ? of_core * static_cast<size_t>(cores) / static_cast<size_t>(ranks) : of_core;
  }
};
// The ranks on a rank's kernel. Equal on all ranks.
Crowd crowd(const Mesh& mesh, int32_t rank);

// Those that are in at least one of these sets, which are as PeerInfo has them.
int32_t count_cores(const std::vector<std::string>& cpus);

}  // namespace hocket
