// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The names for which Hocket has nothing: programs that are linked with them load, and calls say so. What they are
// given is not looked at, so they take nothing.
#include "nccl/forward.h"

#define HOCKET_NCCL_REFUSED(name, why) \
  HOCKET_NCCL(ncclResult_t, name, ()) { return hocket::nccl::refused("nccl" #name, why); }

namespace {

constexpr char kDevice[] = "Hocket has no calls from within kernels";
constexpr char kParameters[] = "NCCL's parameters mean nothing to Hocket: docs/settings.md lists its settings";
constexpr char kPerCall[] = "Hocket takes no configuration for one call";
constexpr char kSuspend[] = "Hocket keeps no device memory that could be given back";

}  // namespace

HOCKET_NCCL_REFUSED(DevCommCreate, kDevice)
HOCKET_NCCL_REFUSED(DevCommDestroy, kDevice)
HOCKET_NCCL_REFUSED(GetCftDeviceLeInfo, kDevice)
HOCKET_NCCL_REFUSED(GetLsaDevicePointer, kDevice)
HOCKET_NCCL_REFUSED(GetLsaMultimemDevicePointer, kDevice)
HOCKET_NCCL_REFUSED(GetMultimemDeviceLeInfo, kDevice)
HOCKET_NCCL_REFUSED(GetMultimemDevicePointer, kDevice)
HOCKET_NCCL_REFUSED(GetPeerDeviceLeInfo, kDevice)
HOCKET_NCCL_REFUSED(GetPeerDevicePointer, kDevice)
HOCKET_NCCL_REFUSED(GinBarrierCreateRequirement, kDevice)
HOCKET_NCCL_REFUSED(GinInboxA2ACreateRequirement, kDevice)
HOCKET_NCCL_REFUSED(GinOutboxCreateRequirement, kDevice)
HOCKET_NCCL_REFUSED(LLA2ACreateRequirement, kDevice)
HOCKET_NCCL_REFUSED(LsaBarrierCreateRequirement, kDevice)
HOCKET_NCCL_REFUSED(TeamCftMultimem, kDevice)
HOCKET_NCCL_REFUSED(ParamBind, kParameters)
HOCKET_NCCL_REFUSED(ParamGet, kParameters)
HOCKET_NCCL_REFUSED(ParamGetAllParameterKeys, kParameters)
HOCKET_NCCL_REFUSED(ParamGetI16, kParameters)
HOCKET_NCCL_REFUSED(ParamGetI32, kParameters)
HOCKET_NCCL_REFUSED(ParamGetI64, kParameters)
HOCKET_NCCL_REFUSED(ParamGetI8, kParameters)
HOCKET_NCCL_REFUSED(ParamGetParameter, kParameters)
HOCKET_NCCL_REFUSED(ParamGetStr, kParameters)
HOCKET_NCCL_REFUSED(ParamGetU16, kParameters)
HOCKET_NCCL_REFUSED(ParamGetU32, kParameters)
HOCKET_NCCL_REFUSED(ParamGetU64, kParameters)
HOCKET_NCCL_REFUSED(ParamGetU8, kParameters)
HOCKET_NCCL_REFUSED(AllGatherConfig, kPerCall)
HOCKET_NCCL_REFUSED(AllReduceConfig, kPerCall)
HOCKET_NCCL_REFUSED(AlltoAllConfig, kPerCall)
HOCKET_NCCL_REFUSED(BroadcastConfig, kPerCall)
HOCKET_NCCL_REFUSED(GatherConfig, kPerCall)
HOCKET_NCCL_REFUSED(ReduceConfig, kPerCall)
HOCKET_NCCL_REFUSED(ReduceScatterConfig, kPerCall)
HOCKET_NCCL_REFUSED(ScatterConfig, kPerCall)
HOCKET_NCCL_REFUSED(SetEncryption, "HOCKET_ENCRYPT says whether traffic is sealed (docs/security.md)")
HOCKET_NCCL_REFUSED(CommSuspend, kSuspend)
HOCKET_NCCL_REFUSED(CommResume, kSuspend)

// Slots of a device-side exchange that is never made.
HOCKET_NCCL(int, LLA2ACalcSlots, ()) { return 0; }

HOCKET_NCCL(void, ParamDumpAll, ()) {}
