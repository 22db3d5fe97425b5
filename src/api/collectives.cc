// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The collectives of the C API: each says what its arguments mean and submits the request.
#include <algorithm>
#include <utility>

#include "api/arguments.h"
#include "api/group.h"
#include "api/place.h"
#include "api/session.h"
#include "comm/call_range.h"
#include "comm/probe.h"
#include "hocket/hocket.h"

namespace hocket {
namespace {

Status check_and_submit(hocketComm_t comm, Session& session, Request& request, hocketStream_t stream) {
  HOCKET_TRY(complete_request(*session.communicator, request));
  return submit(comm, session, std::move(request), stream);
}

// Within each function that calls it: one frame less in a short call.
[[gnu::always_inline]] inline hocketResult_t call(hocketComm_t comm, const CallArguments& arguments, const void* send,
                                                  void* recv, hocketStream_t stream) noexcept {
  const CallRange range(arguments);
  return with_call(comm, [&](Session& session) -> Status {
    if (repeats(comm, session, arguments, send, recv, stream)) return {};
    Request request(arguments, send, recv);
    return check_and_submit(comm, session, request, stream);
  });
}

// A v-form, of which `list` fills in the counts and offsets; arguments.count is 0.
template <typename List>
hocketResult_t call_v(hocketComm_t comm, const CallArguments& arguments, const void* send, void* recv,
                      hocketStream_t stream, const List& list) noexcept {
  const CallRange range(arguments);
  return with_call(comm, [&](Session& session) -> Status {
    Request request(arguments, send, recv);
    request.facts.v_form = true;
    const Communicator& communicator = *session.communicator;
    HOCKET_TRY(fault_of(communicator, request, list(communicator, request)));
    return check_and_submit(comm, session, request, stream);
  });
}

CallArguments&& transfer(CallArguments&& call, int peer, bool sending) {
  call.peer = peer;
  call.sending = sending;
  return std::move(call);
}

}  // namespace
}  // namespace hocket

using hocket::arguments;
using hocket::CallArguments;
using hocket::Collective;
using hocket::Communicator;
using hocket::copy_counts;
using hocket::reducing;
using hocket::Request;
using hocket::rooted;
using hocket::Status;
using hocket::transfer;

hocketResult_t hocketAllReduce(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                               hocketRedOp_t op, hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, reducing(arguments(Collective::kAllReduce, count, datatype), op), sendbuff, recvbuff,
                      stream);
}

hocketResult_t hocketBroadcast(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype, int root,
                               hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, rooted(arguments(Collective::kBroadcast, count, datatype), root), sendbuff, recvbuff,
                      stream);
}

hocketResult_t hocketBcast(void* buff, size_t count, hocketDataType_t datatype, int root, hocketComm_t comm,
                           hocketStream_t stream) {
  return hocketBroadcast(buff, buff, count, datatype, root, comm, stream);
}

hocketResult_t hocketReduce(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                            hocketRedOp_t op, int root, hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, reducing(rooted(arguments(Collective::kReduce, count, datatype), root), op), sendbuff,
                      recvbuff, stream);
}

hocketResult_t hocketAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, hocketDataType_t datatype,
                               hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, arguments(Collective::kAllGather, sendcount, datatype), sendbuff, recvbuff, stream);
}

hocketResult_t hocketReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, hocketDataType_t datatype,
                                   hocketRedOp_t op, hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, reducing(arguments(Collective::kReduceScatter, recvcount, datatype), op), sendbuff,
                      recvbuff, stream);
}

hocketResult_t hocketAllToAll(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                              hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, arguments(Collective::kAllToAll, count, datatype), sendbuff, recvbuff, stream);
}

hocketResult_t hocketAlltoAll(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                              hocketComm_t comm, hocketStream_t stream) {
  return hocketAllToAll(sendbuff, recvbuff, count, datatype, comm, stream);
}

hocketResult_t hocketGather(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype, int root,
                            hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, rooted(arguments(Collective::kGather, count, datatype), root), sendbuff, recvbuff, stream);
}

hocketResult_t hocketScatter(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype, int root,
                             hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, rooted(arguments(Collective::kScatter, count, datatype), root), sendbuff, recvbuff, stream);
}

hocketResult_t hocketSend(const void* sendbuff, size_t count, hocketDataType_t datatype, int peer, hocketComm_t comm,
                          hocketStream_t stream) {
  return hocket::call(comm, transfer(arguments(Collective::kSendRecv, count, datatype), peer, true), sendbuff, nullptr,
                      stream);
}

hocketResult_t hocketRecv(void* recvbuff, size_t count, hocketDataType_t datatype, int peer, hocketComm_t comm,
                          hocketStream_t stream) {
  return hocket::call(comm, transfer(arguments(Collective::kSendRecv, count, datatype), peer, false), nullptr, recvbuff,
                      stream);
}

hocketResult_t hocketProbe(hocketComm_t comm, int* peer) {
  return hocket::with_call(comm, [&](hocket::Session& session) -> Status {
    if (peer == nullptr) return hocket::null_pointer("peer");
    const hocket::Result<hocket::Rank> found = hocket::probe(*session.communicator, session.probed);
    HOCKET_TRY(found.status());
    *peer = *found;
    if (*found >= 0) session.probed = *found;
    return {};
  });
}

hocketResult_t hocketBarrier(hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, arguments(Collective::kBarrier, 0, hocketUint8), nullptr, nullptr, stream);
}

hocketResult_t hocketScan(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                          hocketRedOp_t op, hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, reducing(arguments(Collective::kScan, count, datatype), op), sendbuff, recvbuff, stream);
}

hocketResult_t hocketExScan(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                            hocketRedOp_t op, hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, reducing(arguments(Collective::kExScan, count, datatype), op), sendbuff, recvbuff, stream);
}

// ---- V-forms

hocketResult_t hocketAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                                const size_t* displs, hocketDataType_t datatype, hocketComm_t comm,
                                hocketStream_t stream) {
  const CallArguments call = arguments(Collective::kAllGather, 0, datatype);
  return hocket::call_v(
      comm, call, sendbuff, recvbuff, stream, [&](const Communicator& communicator, Request& r) -> Status {
        HOCKET_TRY(copy_counts("recvcounts", recvcounts, displs, communicator.ranks(), r.recv_counts, r.recv_offsets));
        hocket::note_parts(r.recv_counts, r.facts);
        r.send_counts = {sendcount};
        r.send_offsets = {0};
        return hocket::check_own_count("recvcounts", r.recv_counts, communicator.rank(), "sendcount", sendcount);
      });
}

hocketResult_t hocketReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                    hocketDataType_t datatype, hocketRedOp_t op, hocketComm_t comm,
                                    hocketStream_t stream) {
  const CallArguments call = reducing(arguments(Collective::kReduceScatter, 0, datatype), op);
  return hocket::call_v(
      comm, call, sendbuff, recvbuff, stream, [&](const Communicator& communicator, Request& r) -> Status {
        HOCKET_TRY(copy_counts("recvcounts", recvcounts, nullptr, communicator.ranks(), r.send_counts, r.send_offsets));
        hocket::note_parts(r.send_counts, r.facts);
        r.recv_counts = {r.send_counts[static_cast<size_t>(communicator.rank())]};
        r.recv_offsets = {0};
        return {};
      });
}

hocketResult_t hocketAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls, void* recvbuff,
                               const size_t* recvcounts, const size_t* rdispls, hocketDataType_t datatype,
                               hocketComm_t comm, hocketStream_t stream) {
  const CallArguments call = arguments(Collective::kAllToAll, 0, datatype);
  return hocket::call_v(
      comm, call, sendbuff, recvbuff, stream, [&](const Communicator& communicator, Request& r) -> Status {
        HOCKET_TRY(copy_counts("sendcounts", sendcounts, sdispls, communicator.ranks(), r.send_counts, r.send_offsets));
        HOCKET_TRY(copy_counts("recvcounts", recvcounts, rdispls, communicator.ranks(), r.recv_counts, r.recv_offsets));
        return hocket::check_own_count("sendcounts", r.send_counts, communicator.rank(), "recvcounts of this rank",
                                       r.recv_counts[static_cast<size_t>(communicator.rank())]);
      });
}

hocketResult_t hocketGatherV(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                             const size_t* displs, hocketDataType_t datatype, int root, hocketComm_t comm,
                             hocketStream_t stream) {
  const CallArguments call = rooted(arguments(Collective::kGather, 0, datatype), root);
  return hocket::call_v(
      comm, call, sendbuff, recvbuff, stream, [&](const Communicator& communicator, Request& r) -> Status {
        HOCKET_TRY(hocket::check_count("sendcount", sendcount));
        r.send_counts = {sendcount};
        r.send_offsets = {0};
        if (communicator.rank() != root) return {};
        HOCKET_TRY(copy_counts("recvcounts", recvcounts, displs, communicator.ranks(), r.recv_counts, r.recv_offsets));
        return hocket::check_own_count("recvcounts", r.recv_counts, root, "sendcount", sendcount);
      });
}

hocketResult_t hocketScatterV(const void* sendbuff, const size_t* sendcounts, const size_t* displs, void* recvbuff,
                              size_t recvcount, hocketDataType_t datatype, int root, hocketComm_t comm,
                              hocketStream_t stream) {
  const CallArguments call = rooted(arguments(Collective::kScatter, 0, datatype), root);
  return hocket::call_v(
      comm, call, sendbuff, recvbuff, stream, [&](const Communicator& communicator, Request& r) -> Status {
        HOCKET_TRY(hocket::check_count("recvcount", recvcount));
        r.recv_counts = {recvcount};
        r.recv_offsets = {0};
        if (communicator.rank() != root) return {};
        HOCKET_TRY(copy_counts("sendcounts", sendcounts, displs, communicator.ranks(), r.send_counts, r.send_offsets));
        return hocket::check_own_count("sendcounts", r.send_counts, root, "recvcount", recvcount);
      });
}
