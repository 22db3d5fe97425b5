// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Collectives, point to point, one-sided calls and groups.
#include "nccl/forward.h"

using hocket::nccl::to;
using hocket::nccl::told;

HOCKET_NCCL(ncclResult_t, AllReduce,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
             ncclComm_t comm, cudaStream_t stream)) {
  return told(hocketAllReduce(sendbuff, recvbuff, count, to(datatype), to(op), to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, Broadcast,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  return told(hocketBroadcast(sendbuff, recvbuff, count, to(datatype), root, to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, Bcast,
            (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream)) {
  return told(hocketBcast(buff, count, to(datatype), root, to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, Reduce,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
             ncclComm_t comm, cudaStream_t stream)) {
  return told(hocketReduce(sendbuff, recvbuff, count, to(datatype), to(op), root, to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, AllGather,
            (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
             cudaStream_t stream)) {
  return told(hocketAllGather(sendbuff, recvbuff, sendcount, to(datatype), to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, ReduceScatter,
            (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
             ncclComm_t comm, cudaStream_t stream)) {
  return told(hocketReduceScatter(sendbuff, recvbuff, recvcount, to(datatype), to(op), to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, AlltoAll,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
             cudaStream_t stream)) {
  return told(hocketAlltoAll(sendbuff, recvbuff, count, to(datatype), to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, Gather,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  return told(hocketGather(sendbuff, recvbuff, count, to(datatype), root, to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, Scatter,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  return told(hocketScatter(sendbuff, recvbuff, count, to(datatype), root, to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, Send,
            (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
             cudaStream_t stream)) {
  return told(hocketSend(sendbuff, count, to(datatype), peer, to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, Recv,
            (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream)) {
  return told(hocketRecv(recvbuff, count, to(datatype), peer, to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, PutSignal,
            (const void* localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
             size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream)) {
  return told(hocketPutSignal(localbuff, count, to(datatype), peer, to(peerWin), peerWinOffset, sigIdx, ctx, flags,
                              to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, Signal,
            (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream)) {
  return told(hocketSignal(peer, sigIdx, ctx, flags, to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, WaitSignal,
            (int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm, cudaStream_t stream)) {
  const auto* descriptors = reinterpret_cast<const hocketWaitSignalDesc_t*>(signalDescs);
  return told(hocketWaitSignal(nDesc, descriptors, to(comm), to(stream)));
}

HOCKET_NCCL(ncclResult_t, RedOpCreatePreMulSum,
            (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
             ncclComm_t comm)) {
  return told(hocketRedOpCreatePreMulSum(reinterpret_cast<hocketRedOp_t*>(op), scalar, to(datatype),
                                         static_cast<hocketScalarResidence_t>(residence), to(comm)));
}

HOCKET_NCCL(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  return told(hocketRedOpDestroy(to(op), to(comm)));
}

HOCKET_NCCL(ncclResult_t, GroupStart, (void)) { return told(hocketGroupStart()); }

HOCKET_NCCL(ncclResult_t, GroupEnd, (void)) { return told(hocketGroupEnd()); }

HOCKET_NCCL(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * simInfo)) {
  if (simInfo == nullptr) return told(hocketGroupSimulateEnd(nullptr));
  hocketSimInfo_t info = HOCKET_SIM_INFO_INITIALIZER;
  const ncclResult_t result = told(hocketGroupSimulateEnd(&info));
  if (result == ncclSuccess) simInfo->estimatedTime = info.estimatedTime;
  return result;
}
