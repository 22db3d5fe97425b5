// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Communicators, what is known of them, and errors.
#include <algorithm>
#include <cstring>
#include <string>

#include "nccl/config.h"
#include "nccl/forward.h"
#include "nccl/settling.h"

namespace hocket::nccl {
namespace {

constexpr int kVersion = NCCL_VERSION_CODE;  // of which programs may expect all

thread_local std::string refusal;  // newer than Hocket's own error

// Runs body(hocketConfig_t*), which creates a communicator, with what the program wants.
template <typename Body>
ncclResult_t create(const char* function, const ncclConfig_t* given, ncclComm_t* created, const Body& body) {
  if (given == nullptr) return told(body(nullptr));
  hocketConfig_t config;
  if (!read_config(*given, config)) return refused(function, "config: initialise it with NCCL_CONFIG_INITIALIZER");
  const hocketResult_t result = body(&config);
  if (config.blocking == 0 && result == hocketInProgress) begin_to_settle(*created);
  return told(result);
}

ncclTeam_t world(ncclComm_t comm) {
  ncclTeam_t team = {0, 0, 1};
  if (hocketCommCount(to(comm), &team.nRanks) != hocketSuccess) return {0, 0, 0};
  return hocketCommUserRank(to(comm), &team.rank) == hocketSuccess ? team : ncclTeam_t{0, 0, 0};
}

}  // namespace

ncclResult_t told(hocketResult_t result) {
  if (result != hocketSuccess) refusal.clear();
  return static_cast<ncclResult_t>(result);
}

ncclResult_t refused(const char* function, const char* why) {
  refusal = std::string(function) + ": " + why;
  return ncclInvalidUsage;
}

}  // namespace hocket::nccl

using hocket::nccl::begin_to_settle;
using hocket::nccl::create;
using hocket::nccl::refusal;
using hocket::nccl::settled_state;
using hocket::nccl::to;
using hocket::nccl::told;

HOCKET_NCCL(ncclResult_t, GetVersion, (int* version)) {
  if (version == nullptr) return hocket::nccl::refused("ncclGetVersion", "version is NULL");
  *version = hocket::nccl::kVersion;
  return ncclSuccess;
}

HOCKET_NCCL(const char*, GetErrorString, (ncclResult_t result)) {
  return hocketGetErrorString(static_cast<hocketResult_t>(result));
}

HOCKET_NCCL(const char*, GetLastError, (ncclComm_t comm)) {
  return refusal.empty() ? hocketGetLastError(to(comm)) : refusal.c_str();
}

HOCKET_NCCL(void, ResetDebugInit, (void)) {}

HOCKET_NCCL(ncclResult_t, GetUniqueId, (ncclUniqueId * uniqueId)) { return told(hocketGetUniqueId(to(uniqueId))); }

HOCKET_NCCL(ncclResult_t, CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank)) {
  return told(hocketCommInitRank(to(comm), nranks, *to(&commId), rank));
}

HOCKET_NCCL(ncclResult_t, CommInitRankConfig,
            (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config)) {
  return create("ncclCommInitRankConfig", config, comm, [&](hocketConfig_t* own) {
    return hocketCommInitRankConfig(to(comm), nranks, *to(&commId), rank, own);
  });
}

HOCKET_NCCL(ncclResult_t, CommInitRankScalable,
            (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds, ncclConfig_t* config)) {
  return create("ncclCommInitRankScalable", config, newcomm, [&](hocketConfig_t* own) {
    return hocketCommInitRankScalable(to(newcomm), nranks, myrank, nId, to(commIds), own);
  });
}

HOCKET_NCCL(ncclResult_t, CommInitAll, (ncclComm_t * comms, int ndev, const int* devlist)) {
  return told(hocketCommInitAll(to(comms), ndev, devlist));
}

HOCKET_NCCL(ncclResult_t, CommFinalize, (ncclComm_t comm)) {
  const hocketResult_t result = hocketCommFinalize(to(comm));
  if (result == hocketInProgress) begin_to_settle(comm);
  return told(result);
}

HOCKET_NCCL(ncclResult_t, CommDestroy, (ncclComm_t comm)) { return told(hocketCommDestroy(to(comm))); }

HOCKET_NCCL(ncclResult_t, CommAbort, (ncclComm_t comm)) { return told(hocketCommAbort(to(comm))); }

HOCKET_NCCL(ncclResult_t, CommRevoke, (ncclComm_t comm, int revokeFlags)) {
  return told(hocketCommRevoke(to(comm), revokeFlags));
}

HOCKET_NCCL(ncclResult_t, CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config)) {
  return create("ncclCommSplit", config, newcomm,
                [&](hocketConfig_t* own) { return hocketCommSplit(to(comm), color, key, to(newcomm), own); });
}

HOCKET_NCCL(ncclResult_t, CommShrink,
            (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config,
             int shrinkFlags)) {
  return create("ncclCommShrink", config, newcomm, [&](hocketConfig_t* own) {
    return hocketCommShrink(to(comm), excludeRanksList, excludeRanksCount, to(newcomm), own, shrinkFlags);
  });
}

HOCKET_NCCL(ncclResult_t, CommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId)) {
  return told(hocketCommGetUniqueId(to(comm), to(uniqueId)));
}

HOCKET_NCCL(ncclResult_t, CommGrow,
            (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
             ncclConfig_t* config)) {
  return create("ncclCommGrow", config, newcomm, [&](hocketConfig_t* own) {
    return hocketCommGrow(to(comm), nRanks, to(uniqueId), rank, to(newcomm), own);
  });
}

HOCKET_NCCL(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError)) {
  const hocketResult_t result = hocketCommGetAsyncError(to(comm), reinterpret_cast<hocketResult_t*>(asyncError));
  if (result == hocketSuccess) *asyncError = settled_state(comm, *asyncError);
  return told(result);
}

HOCKET_NCCL(ncclResult_t, CommCount, (const ncclComm_t comm, int* count)) {
  return told(hocketCommCount(to(comm), count));
}

HOCKET_NCCL(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int* device)) {
  return told(hocketCommCuDevice(to(comm), device));
}

HOCKET_NCCL(ncclResult_t, CommUserRank, (const ncclComm_t comm, int* rank)) {
  return told(hocketCommUserRank(to(comm), rank));
}

// What Hocket keeps on devices: nothing.
HOCKET_NCCL(ncclResult_t, CommMemStats, (ncclComm_t comm, ncclCommMemStat_t, uint64_t* value)) {
  if (value == nullptr) return hocket::nccl::refused("ncclCommMemStats", "value is NULL");
  int rank = 0;
  const ncclResult_t result = told(hocketCommUserRank(to(comm), &rank));
  if (result == ncclSuccess) *value = 0;
  return result;
}

// Members beyond those we know stay 0: no device-side calls, no multimem, no GIN.
HOCKET_NCCL(ncclResult_t, CommQueryProperties, (ncclComm_t comm, ncclCommProperties_t* properties)) {
  constexpr size_t kHead = offsetof(ncclCommProperties_t, rank);
  if (properties == nullptr || properties->magic != NCCL_API_MAGIC || properties->size < sizeof *properties) {
    return hocket::nccl::refused("ncclCommQueryProperties", "properties: use NCCL_COMM_PROPERTIES_INITIALIZER");
  }
  const ncclTeam_t team = hocket::nccl::world(comm);
  int device = -1;
  const ncclResult_t result = told(hocketCommCuDevice(to(comm), &device));
  if (result != ncclSuccess) return result;
  std::memset(reinterpret_cast<char*>(properties) + kHead, 0, properties->size - kHead);
  properties->rank = team.rank;
  properties->nRanks = team.nRanks;
  properties->cudaDev = properties->nvmlDev = device;
  return result;
}

// ---- Teams: no rank reaches another's memory from a kernel.

HOCKET_NCCL(ncclTeam_t, TeamWorld, (ncclComm_t comm)) { return hocket::nccl::world(comm); }

HOCKET_NCCL(ncclTeam_t, TeamRail, (ncclComm_t comm)) { return hocket::nccl::world(comm); }

HOCKET_NCCL(ncclTeam_t, TeamLsa, (ncclComm_t)) { return {1, 0, 1}; }

HOCKET_NCCL(ncclTeam_t, TeamCft, (ncclComm_t)) { return {1, 0, 1}; }

HOCKET_NCCL(int, TeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank)) {
  return hocket::nccl::world(comm).rank + (rank - team.rank) * team.stride;
}

HOCKET_NCCL(int, TeamRankToLsa, (ncclComm_t, ncclTeam_t team, int rank)) { return (rank - team.rank) * team.stride; }
