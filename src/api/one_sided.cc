// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The one-sided calls of the C API: each checks what it is told and submits the work.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "api/group.h"
#include "api/place.h"
#include "api/session.h"
#include "api/window_number.h"
#include "comm/one_sided.h"
#include "hocket/hocket.h"

namespace hocket {
namespace {

using Kind = RemoteRequest::Kind;

constexpr size_t kMaxBytes = size_t{1} << 62;  // as of all other calls

// What is wrong with an argument, of a call that can be described by now.
Status wrong(const Communicator& communicator, const RemoteCall& call, const std::string& why) {
  return Status(Code::kInvalidArgument,
                fmt::format("{}rank {}: {}: {}", communicator.prefix(), communicator.rank(), describe(call), why));
}

bool is_rank(const Communicator& communicator, int rank) { return rank >= 0 && rank < communicator.ranks(); }

std::string no_rank(const Communicator& communicator, int rank) {
  return fmt::format("peer: {} is not among {} ranks", rank, communicator.ranks());
}

std::string check_signal(int signal, int context, unsigned flags) {
  if (signal < 0 || signal >= SignalBoard::kSignals) {
    return fmt::format("sigIdx: {}: it must be 0 to {}", signal, SignalBoard::kSignals - 1);
  }
  if (context != 0) return fmt::format("ctx: {}: it must be 0", context);
  return flags == 0 ? "" : fmt::format("flags: {:#x}: it must be 0", flags);
}

Status check_peer_and_type(const Communicator& communicator, hocketDataType_t type, const RemoteCall& call) {
  if (!is_rank(communicator, call.peer)) return wrong(communicator, call, no_rank(communicator, call.peer));
  if (static_cast<unsigned>(type) < hocketNumTypes) return {};
  return wrong(communicator, call, "datatype: there is no such type");
}

// What moves `count` elements between `local` and the peer's part of a window.
Status check_transfer(const Communicator& communicator, size_t count, hocketDataType_t type, const char* buffer,
                      RemoteCall& call) {
  HOCKET_TRY(check_peer_and_type(communicator, type, call));
  const size_t element = element_bytes(static_cast<DataType>(type));
  if (count > kMaxBytes / element) {
    return wrong(communicator, call, fmt::format("count: {} elements are more than 2^62 bytes", count));
  }
  call.request.bytes = count * element;
  if (call.local == nullptr && count > 0) return wrong(communicator, call, fmt::format("{} is NULL", buffer));
  return check_host_memory(buffer, call.local);
}

hocketResult_t transfer(Kind kind, void* local, const char* buffer, size_t count, hocketDataType_t type, int peer,
                        hocketWindow_t window, size_t offset, hocketComm_t comm, hocketStream_t stream) noexcept {
  return with_call(comm, [&](Session& session) -> Status {
    Communicator& communicator = *session.communicator;
    RemoteCall call{peer, {.kind = kind, .window = window_number(window), .offset = offset}, local};
    HOCKET_TRY(check_transfer(communicator, count, type, buffer, call));
    return submit(comm, session, std::make_unique<RemoteAccess>(communicator, std::move(call)), stream);
  });
}

// Of integers of 4 or 8 bytes.
hocketResult_t call_atomic(RemoteRequest request, const void* compare, const void* operand, void* result,
                           hocketDataType_t type, int peer, hocketComm_t comm, hocketStream_t stream) noexcept {
  return with_call(comm, [&](Session& session) -> Status {
    Communicator& communicator = *session.communicator;
    RemoteCall call{peer, std::move(request), result};
    HOCKET_TRY(check_peer_and_type(communicator, type, call));
    call.request.type = static_cast<DataType>(type);
    call.request.bytes = element_bytes(call.request.type);
    if (!is_atomic(call.request.type)) {
      return wrong(communicator, call,
                   fmt::format("datatype: {}: it must be an integer of 4 or 8 bytes", name(call.request.type)));
    }
    if (operand == nullptr) return wrong(communicator, call, "the operand is NULL");
    if (call.request.kind == Kind::kCompareSwap && compare == nullptr) {
      return wrong(communicator, call, "compare is NULL");
    }
    std::memcpy(&call.request.operand, operand, call.request.bytes);
    if (compare != nullptr) std::memcpy(&call.request.compare, compare, call.request.bytes);
    return submit(comm, session, std::make_unique<RemoteAccess>(communicator, std::move(call)), stream);
  });
}

// Of the operations that are atomic; nothing else has a value.
Result<ReduceOp> atomic_op(hocketRedOp_t op) {
  switch (static_cast<int>(op)) {
    case hocketSum:
      return ReduceOp::kSum;
    case hocketMax:
      return ReduceOp::kMax;
    case hocketMin:
      return ReduceOp::kMin;
    case hocketBitAnd:
      return ReduceOp::kBitAnd;
    case hocketBitOr:
      return ReduceOp::kBitOr;
    case hocketBitXor:
      return ReduceOp::kBitXor;
    default:
      return Status(Code::kInvalidArgument, "op: it must be sum, max, min or a bitwise one");
  }
}

Status check_waits(const Communicator& communicator, int count, const hocketWaitSignalDesc_t* descriptors) {
  const auto refused = [&](int index, const std::string& why) {
    return Status(Code::kInvalidArgument, fmt::format("{}rank {}: wait_signal: signalDescs[{}]: {}",
                                                      communicator.prefix(), communicator.rank(), index, why));
  };
  if (count < 1) return Status(Code::kInvalidArgument, fmt::format("nDesc: {} descriptors", count));
  if (descriptors == nullptr) return null_pointer("signalDescs");
  for (int i = 0; i < count; ++i) {
    const hocketWaitSignalDesc_t& one = descriptors[i];
    if (!is_rank(communicator, one.peer)) return refused(i, no_rank(communicator, one.peer));
    if (one.opCnt < 0) return refused(i, fmt::format("opCnt: {} is negative", one.opCnt));
    if (const std::string fault = check_signal(one.sigIdx, one.ctx, 0); !fault.empty()) return refused(i, fault);
  }
  return {};
}

}  // namespace
}  // namespace hocket

using hocket::Communicator;
using hocket::Kind;
using hocket::RemoteAccess;
using hocket::RemoteCall;
using hocket::Session;
using hocket::Status;
using hocket::submit;
using hocket::with_call;

hocketResult_t hocketPut(const void* localbuff, size_t count, hocketDataType_t datatype, int peer,
                         hocketWindow_t peerWin, size_t peerWinOffset, hocketComm_t comm, hocketStream_t stream) {
  return hocket::transfer(Kind::kPut, const_cast<void*>(localbuff), "localbuff", count, datatype, peer, peerWin,
                          peerWinOffset, comm, stream);
}

hocketResult_t hocketGet(void* localbuff, size_t count, hocketDataType_t datatype, int peer, hocketWindow_t peerWin,
                         size_t peerWinOffset, hocketComm_t comm, hocketStream_t stream) {
  return hocket::transfer(Kind::kGet, localbuff, "localbuff", count, datatype, peer, peerWin, peerWinOffset, comm,
                          stream);
}

hocketResult_t hocketPutSignal(const void* localbuff, size_t count, hocketDataType_t datatype, int peer,
                               hocketWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags,
                               hocketComm_t comm, hocketStream_t stream) {
  return with_call(comm, [&](Session& session) -> Status {
    Communicator& communicator = *session.communicator;
    RemoteCall call{peer,
                    {.kind = Kind::kPut, .window = hocket::window_number(peerWin), .offset = peerWinOffset},
                    const_cast<void*>(localbuff)};
    HOCKET_TRY(hocket::check_transfer(communicator, count, datatype, "localbuff", call));
    const std::string fault = hocket::check_signal(sigIdx, ctx, flags);
    if (!fault.empty()) return hocket::wrong(communicator, call, fault);
    call.request.signal = sigIdx;
    return submit(comm, session, std::make_unique<RemoteAccess>(communicator, std::move(call)), stream);
  });
}

hocketResult_t hocketSignal(int peer, int sigIdx, int ctx, unsigned int flags, hocketComm_t comm,
                            hocketStream_t stream) {
  return with_call(comm, [&](Session& session) -> Status {
    Communicator& communicator = *session.communicator;
    RemoteCall call{peer, {.kind = Kind::kSignal, .signal = sigIdx}, nullptr};
    std::string fault = hocket::check_signal(sigIdx, ctx, flags);
    if (!hocket::is_rank(communicator, peer)) fault = hocket::no_rank(communicator, peer);
    if (!fault.empty()) return hocket::wrong(communicator, call, fault);
    return submit(comm, session, std::make_unique<RemoteAccess>(communicator, std::move(call)), stream);
  });
}

hocketResult_t hocketWaitSignal(int nDesc, const hocketWaitSignalDesc_t* signalDescs, hocketComm_t comm,
                                hocketStream_t stream) {
  return with_call(comm, [&](Session& session) -> Status {
    Communicator& communicator = *session.communicator;
    HOCKET_TRY(hocket::check_waits(communicator, nDesc, signalDescs));
    if (communicator.signals() == nullptr) {
      return Status(hocket::Code::kInvalidUsage,
                    fmt::format("{}rank {}: wait_signal: signals need a window, and this rank has registered none",
                                communicator.prefix(), communicator.rank()));
    }
    std::vector<hocket::SignalWait::Awaited> awaited;
    for (int i = 0; i < nDesc; ++i) {
      awaited.push_back({signalDescs[i].peer, signalDescs[i].sigIdx, static_cast<uint64_t>(signalDescs[i].opCnt)});
    }
    return submit(comm, session, std::make_unique<hocket::SignalWait>(communicator, std::move(awaited)), stream);
  });
}

hocketResult_t hocketFetchOp(const void* operand, void* result, hocketDataType_t datatype, hocketRedOp_t op, int peer,
                             hocketWindow_t peerWin, size_t peerWinOffset, hocketComm_t comm, hocketStream_t stream) {
  const hocket::Result<hocket::ReduceOp> atomic = hocket::atomic_op(op);
  if (!atomic.ok()) return with_call(comm, [&](Session&) { return atomic.status(); });
  return hocket::call_atomic(
      {.kind = Kind::kFetch, .window = hocket::window_number(peerWin), .offset = peerWinOffset, .op = *atomic}, nullptr,
      operand, result, datatype, peer, comm, stream);
}

hocketResult_t hocketCompareSwap(const void* compare, const void* desired, void* result, hocketDataType_t datatype,
                                 int peer, hocketWindow_t peerWin, size_t peerWinOffset, hocketComm_t comm,
                                 hocketStream_t stream) {
  return hocket::call_atomic(
      {.kind = Kind::kCompareSwap, .window = hocket::window_number(peerWin), .offset = peerWinOffset}, compare, desired,
      result, datatype, peer, comm, stream);
}
