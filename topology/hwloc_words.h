// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Words of hwloc's XML that its reader and its writer both know.
#pragma once

#include <array>
#include <string_view>

#include "topology/topology.h"

namespace hocket::topology {

// Matrices of bandwidth at the end of a file. hwloc makes the first two; the others are ours, as it lets programs add.
struct Matrix {
  std::string_view name;
  Link::Kind kind;
};
inline constexpr std::array kMatrices = {
    Matrix{"NVLinkBandwidth", Link::Kind::kNvlink},
    Matrix{"XGMIBandwidth", Link::Kind::kXgmi},
    Matrix{"C2CBandwidth", Link::Kind::kC2c},
    Matrix{"NUMABandwidth", Link::Kind::kSocket},
};

inline constexpr std::string_view kHwlocGpuModel = "GPUModel";

}  // namespace hocket::topology
