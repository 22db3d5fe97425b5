// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a kind of link is worth where nobody tells: what its makers claim, in one direction.
#pragma once

#include <cstdint>
#include <string_view>

#include "topology/topology.h"

namespace hocket::topology {

// One NVLink of a GPU of this compute capability, as 90.
double nvlink_gb_per_s(int64_t sm);
// One xGMI link of a GPU of this architecture, as "gfx942", "942" or "908".
double xgmi_gb_per_s(std::string_view architecture);
// What remains of a PCI link's transfers per second, in each lane, after its coding.
double pci_gb_per_s(double gigatransfers, int64_t lanes);
// Between the sockets of a processor's maker: "GenuineIntel", "AuthenticAMD", or by architecture.
double socket_gb_per_s(std::string_view vendor, std::string_view architecture);

inline constexpr double kMegabitsPerGbPerS = 8000;
inline constexpr double kPciDefaultGbPerS = 12;  // third generation, 16 lanes, as measured
inline constexpr double kNetworkDefaultGbPerS = 1.25;
inline constexpr double kCacheGbPerS = 32;  // between a core complex and its memory

double latency_us(Link::Kind kind);

}  // namespace hocket::topology
