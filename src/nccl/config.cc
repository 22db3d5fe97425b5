// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "nccl/config.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace hocket::nccl {
namespace {

constexpr unsigned kTrafficClassSince = 22600;

constexpr size_t end_of_blocking = offsetof(ncclConfig_t, blocking) + sizeof(int);
constexpr size_t end_of_split_share = offsetof(ncclConfig_t, splitShare) + sizeof(int);
constexpr size_t end_of_last = offsetof(ncclConfig_t, nvlsHostMode) + sizeof(int);

// The sizes that NCCL's versions have had.
static_assert(offsetof(ncclConfig_t, cgaClusterSize) == 20 && offsetof(ncclConfig_t, splitShare) == 40);
static_assert(offsetof(ncclConfig_t, commName) == 48 && offsetof(ncclConfig_t, nChannelsPerNetPeer) == 72);
static_assert(offsetof(ncclConfig_t, graphUsageMode) == 80 && offsetof(ncclConfig_t, maxP2pPeers) == 88);
static_assert(offsetof(ncclConfig_t, launchOrderImplicit) == 96 && sizeof(ncclConfig_t) == 120);

}  // namespace

size_t known_bytes(size_t size, unsigned version) {
  if (size < offsetof(ncclConfig_t, netName)) return std::min(size, end_of_blocking);
  if (size < offsetof(ncclConfig_t, commName) ||
      (size == offsetof(ncclConfig_t, commName) && version < kTrafficClassSince)) {
    return std::min(size, end_of_split_share);
  }
  return std::min(size, end_of_last);
}

bool read_config(const ncclConfig_t& given, hocketConfig_t& config) {
  if (given.magic != NCCL_API_MAGIC || given.size < end_of_blocking) return false;
  ncclConfig_t whole = NCCL_CONFIG_INITIALIZER;
  std::memcpy(&whole, &given, known_bytes(given.size, given.version));
  config = HOCKET_CONFIG_INITIALIZER;
  config.blocking = whole.blocking;
  config.cgaClusterSize = whole.cgaClusterSize;
  config.minCTAs = whole.minCTAs;
  config.maxCTAs = whole.maxCTAs;
  config.netName = whole.netName;
  config.splitShare = whole.splitShare;
  config.trafficClass = whole.trafficClass;
  config.commName = whole.commName;
  config.collnetEnable = whole.collnetEnable;
  config.CTAPolicy = whole.CTAPolicy;
  config.shrinkShare = whole.shrinkShare;
  config.nvlsCTAs = whole.nvlsCTAs;
  config.nChannelsPerNetPeer = whole.nChannelsPerNetPeer;
  config.nvlinkCentricSched = whole.nvlinkCentricSched;
  config.graphUsageMode = whole.graphUsageMode;
  config.numRmaCtx = whole.numRmaCtx;
  config.maxP2pPeers = whole.maxP2pPeers;
  config.graphStreamOrdering = whole.graphStreamOrdering;
  config.launchOrderImplicit = whole.launchOrderImplicit;
  config.numRmaSig = whole.numRmaSig;
  config.rmaEagerInit = whole.rmaEagerInit;
  config.hostCftMode = whole.hostCftMode;
  config.nvlsHostMode = whole.nvlsHostMode;
  return true;
}

}  // namespace hocket::nccl
