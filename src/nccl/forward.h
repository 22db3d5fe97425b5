// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How a function of NCCL's becomes one of Hocket's: the two have the same values for results, types and operations, and
// opaque handles.
#pragma once

#include "hocket/hocket.h"
#include "nccl/nccl.h"

// Defines ncclNAME and pncclNAME. The first is weak, as in NCCL, so that profilers can stand before it.
#define HOCKET_NCCL(type, name, parameters)                                          \
  extern "C" __attribute__((weak, alias("pnccl" #name))) type nccl##name parameters; \
  extern "C" type pnccl##name parameters

namespace hocket::nccl {

static_assert(static_cast<int>(ncclTimeout) == hocketTimeout && static_cast<int>(ncclNumResults) == hocketNumResults);
static_assert(static_cast<int>(ncclFloat8e5m2) == hocketFloat8e5m2 && static_cast<int>(ncclNumTypes) == hocketNumTypes);
static_assert(static_cast<int>(ncclAvg) == hocketAvg);
static_assert(sizeof(ncclUniqueId) == sizeof(hocketUniqueId));
static_assert(sizeof(ncclWaitSignalDesc_t) == sizeof(hocketWaitSignalDesc_t));

inline hocketComm_t to(ncclComm_t comm) { return reinterpret_cast<hocketComm_t>(comm); }
inline hocketComm_t* to(ncclComm_t* comm) { return reinterpret_cast<hocketComm_t*>(comm); }
inline hocketWindow_t to(ncclWindow_t window) { return reinterpret_cast<hocketWindow_t>(window); }
inline hocketStream_t to(cudaStream_t stream) { return stream; }
inline hocketDataType_t to(ncclDataType_t type) { return static_cast<hocketDataType_t>(type); }
inline hocketUniqueId* to(ncclUniqueId* id) { return reinterpret_cast<hocketUniqueId*>(id); }
inline const hocketUniqueId* to(const ncclUniqueId* id) { return reinterpret_cast<const hocketUniqueId*>(id); }
// Operations are created beyond the enumeration: by their bits.
inline hocketRedOp_t& to(ncclRedOp_t& op) { return reinterpret_cast<hocketRedOp_t&>(op); }

// What Hocket answers. Its text is what ncclGetLastError says from now on.
ncclResult_t told(hocketResult_t result);
// What Hocket has nothing for.
ncclResult_t refused(const char* function, const char* why);

}  // namespace hocket::nccl
