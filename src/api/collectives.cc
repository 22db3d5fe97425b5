// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The collectives of the C API: each says what its arguments mean and submits the request.
#include <algorithm>
#include <utility>

#include "api/arguments.h"
#include "api/group.h"
#include "api/session.h"
#include "hocket/hocket.h"

namespace hocket {
namespace {

// `complete` fills in what needs the communicator.
template <typename Complete>
hocketResult_t call(hocketComm_t comm, Request&& request, hocketStream_t stream, const Complete& complete) noexcept {
  return with_call(comm, [&](Session& session) -> Status {
    HOCKET_TRY(complete(*session.communicator, request));
    HOCKET_TRY(check_request(*session.communicator, request));
    return submit(comm, session, std::move(request), stream);
  });
}

hocketResult_t call(hocketComm_t comm, Request&& request, hocketStream_t stream) noexcept {
  return call(comm, std::move(request), stream, [](const Communicator&, Request&) { return Status(); });
}

hocketResult_t reduce(hocketComm_t comm, Request&& request, const hocketRedOp_t& op, hocketStream_t stream) noexcept {
  return call(comm, std::move(request), stream,
              [&op](const Communicator& communicator, Request& r) { return resolve_reduction(communicator, op, r); });
}

Request rooted(Request request, int root) {
  request.facts.root = root;
  return request;
}

Request transfer(Request request, int peer, bool sending) {
  request.facts.peer = peer;
  request.facts.sending = sending;
  return request;
}

Request v_form(Request request) {
  request.facts.v_form = true;
  return request;
}

}  // namespace
}  // namespace hocket

using hocket::Collective;
using hocket::Communicator;
using hocket::copy_counts;
using hocket::make_request;
using hocket::Request;
using hocket::rooted;
using hocket::Status;
using hocket::transfer;
using hocket::v_form;

hocketResult_t hocketAllReduce(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                               hocketRedOp_t op, hocketComm_t comm, hocketStream_t stream) {
  return hocket::reduce(comm, make_request(Collective::kAllReduce, sendbuff, recvbuff, count, datatype), op, stream);
}

hocketResult_t hocketBroadcast(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype, int root,
                               hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, rooted(make_request(Collective::kBroadcast, sendbuff, recvbuff, count, datatype), root),
                      stream);
}

hocketResult_t hocketBcast(void* buff, size_t count, hocketDataType_t datatype, int root, hocketComm_t comm,
                           hocketStream_t stream) {
  return hocketBroadcast(buff, buff, count, datatype, root, comm, stream);
}

hocketResult_t hocketReduce(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                            hocketRedOp_t op, int root, hocketComm_t comm, hocketStream_t stream) {
  return hocket::reduce(comm, rooted(make_request(Collective::kReduce, sendbuff, recvbuff, count, datatype), root), op,
                        stream);
}

hocketResult_t hocketAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, hocketDataType_t datatype,
                               hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, make_request(Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype), stream);
}

hocketResult_t hocketReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, hocketDataType_t datatype,
                                   hocketRedOp_t op, hocketComm_t comm, hocketStream_t stream) {
  return hocket::reduce(comm, make_request(Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype), op,
                        stream);
}

hocketResult_t hocketAllToAll(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                              hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, make_request(Collective::kAllToAll, sendbuff, recvbuff, count, datatype), stream);
}

hocketResult_t hocketGather(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype, int root,
                            hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, rooted(make_request(Collective::kGather, sendbuff, recvbuff, count, datatype), root),
                      stream);
}

hocketResult_t hocketScatter(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype, int root,
                             hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, rooted(make_request(Collective::kScatter, sendbuff, recvbuff, count, datatype), root),
                      stream);
}

hocketResult_t hocketSend(const void* sendbuff, size_t count, hocketDataType_t datatype, int peer, hocketComm_t comm,
                          hocketStream_t stream) {
  return hocket::call(
      comm, transfer(make_request(Collective::kSendRecv, sendbuff, nullptr, count, datatype), peer, true), stream);
}

hocketResult_t hocketRecv(void* recvbuff, size_t count, hocketDataType_t datatype, int peer, hocketComm_t comm,
                          hocketStream_t stream) {
  return hocket::call(
      comm, transfer(make_request(Collective::kSendRecv, nullptr, recvbuff, count, datatype), peer, false), stream);
}

hocketResult_t hocketBarrier(hocketComm_t comm, hocketStream_t stream) {
  return hocket::call(comm, make_request(Collective::kBarrier, nullptr, nullptr, 0, hocketUint8), stream);
}

hocketResult_t hocketScan(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                          hocketRedOp_t op, hocketComm_t comm, hocketStream_t stream) {
  return hocket::reduce(comm, make_request(Collective::kScan, sendbuff, recvbuff, count, datatype), op, stream);
}

hocketResult_t hocketExScan(const void* sendbuff, void* recvbuff, size_t count, hocketDataType_t datatype,
                            hocketRedOp_t op, hocketComm_t comm, hocketStream_t stream) {
  return hocket::reduce(comm, make_request(Collective::kExScan, sendbuff, recvbuff, count, datatype), op, stream);
}

// ---- V-forms: facts.count stays 0, the lists say the rest

hocketResult_t hocketAllGatherV(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                                const size_t* displs, hocketDataType_t datatype, hocketComm_t comm,
                                hocketStream_t stream) {
  Request request = v_form(make_request(Collective::kAllGather, sendbuff, recvbuff, 0, datatype));
  return hocket::call(comm, std::move(request), stream, [&](const Communicator& communicator, Request& r) -> Status {
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
  Request request = v_form(make_request(Collective::kReduceScatter, sendbuff, recvbuff, 0, datatype));
  return hocket::call(comm, std::move(request), stream, [&](const Communicator& communicator, Request& r) -> Status {
    HOCKET_TRY(copy_counts("recvcounts", recvcounts, nullptr, communicator.ranks(), r.send_counts, r.send_offsets));
    hocket::note_parts(r.send_counts, r.facts);
    r.recv_counts = {r.send_counts[static_cast<size_t>(communicator.rank())]};
    r.recv_offsets = {0};
    return hocket::resolve_reduction(communicator, op, r);
  });
}

hocketResult_t hocketAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls, void* recvbuff,
                               const size_t* recvcounts, const size_t* rdispls, hocketDataType_t datatype,
                               hocketComm_t comm, hocketStream_t stream) {
  Request request = v_form(make_request(Collective::kAllToAll, sendbuff, recvbuff, 0, datatype));
  return hocket::call(comm, std::move(request), stream, [&](const Communicator& communicator, Request& r) -> Status {
    HOCKET_TRY(copy_counts("sendcounts", sendcounts, sdispls, communicator.ranks(), r.send_counts, r.send_offsets));
    HOCKET_TRY(copy_counts("recvcounts", recvcounts, rdispls, communicator.ranks(), r.recv_counts, r.recv_offsets));
    return hocket::check_own_count("sendcounts", r.send_counts, communicator.rank(), "recvcounts of this rank",
                                   r.recv_counts[static_cast<size_t>(communicator.rank())]);
  });
}

hocketResult_t hocketGatherV(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                             const size_t* displs, hocketDataType_t datatype, int root, hocketComm_t comm,
                             hocketStream_t stream) {
  Request request = v_form(rooted(make_request(Collective::kGather, sendbuff, recvbuff, 0, datatype), root));
  return hocket::call(comm, std::move(request), stream, [&](const Communicator& communicator, Request& r) -> Status {
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
  Request request = v_form(rooted(make_request(Collective::kScatter, sendbuff, recvbuff, 0, datatype), root));
  return hocket::call(comm, std::move(request), stream, [&](const Communicator& communicator, Request& r) -> Status {
    r.recv_counts = {recvcount};
    r.recv_offsets = {0};
    if (communicator.rank() != root) return {};
    HOCKET_TRY(copy_counts("sendcounts", sendcounts, displs, communicator.ranks(), r.send_counts, r.send_offsets));
    return hocket::check_own_count("sendcounts", r.send_counts, root, "recvcount", recvcount);
  });
}
