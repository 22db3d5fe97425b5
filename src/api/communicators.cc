// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Communicators and reduction operations of the C API.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/opening.h"
#include "api/place.h"
#include "api/session.h"
#include "hocket/hocket.h"

namespace {

using hocket::Code;
using hocket::Communicator;
using hocket::CommunicatorOptions;
using hocket::create;
using hocket::guarded;
using hocket::no_communicator;
using hocket::null_pointer;
using hocket::report;
using hocket::Result;
using hocket::Session;
using hocket::sessions;
using hocket::Status;
using hocket::with_session;

// Makes the handle invalid, and frees when no call is inside and nothing that was issued before is still to run.
void remove(hocketComm_t comm) noexcept {
  guarded([&] {
    const std::unique_ptr<Session> session = sessions().remove(comm);
    if (session != nullptr && session->communicator != nullptr) session->communicator->wait_until_idle();
    if (session != nullptr && session->pending != nullptr) hocket::join_creators();
    return hocketSuccess;
  });
}

// Null: none, or created already by a call that waited.
std::shared_ptr<hocket::PendingCreation> pending_creation(hocketComm_t comm) {
  const auto pin = sessions().pin(comm);
  return pin ? pin->pending : nullptr;
}

hocketResult_t state_of(Session& session, bool held) {
  if (session.pending != nullptr && session.pending->under_way()) return hocketInProgress;
  const Status opened = session.opened();
  const Status status = opened.ok() ? session.communicator->mesh().status() : opened;
  if (!status.ok()) return static_cast<hocketResult_t>(status.code());
  return session.communicator->idle() && !held ? hocketSuccess : hocketInProgress;
}

// Waits until nothing is under way, unless told not to.
hocketResult_t finalize(hocketComm_t comm, bool waits) noexcept {
  bool idle = true;
  const hocketResult_t result = with_session(comm, [&](Session& session) -> Status {
    HOCKET_TRY(hocket::may_wait());
    session.phase = Session::Phase::kFinalized;
    if (waits || session.pending == nullptr) session.communicator->wait_until_idle();
    idle = session.communicator->idle();
    return session.communicator->mesh().status();
  });
  return result == hocketSuccess && !idle ? hocketInProgress : result;
}

}  // namespace

hocketResult_t hocketGetUniqueId(hocketUniqueId* uniqueId) {
  return guarded([&] {
    if (uniqueId == nullptr) return report(null_pointer("uniqueId"));
    const Result<std::string> id = hocket::make_unique_id();
    if (!id.ok()) return report(id.status());
    std::memcpy(uniqueId->internal, id->data(), std::min(id->size(), sizeof uniqueId->internal));
    return hocketSuccess;
  });
}

hocketResult_t hocketCommInitRank(hocketComm_t* comm, int nranks, hocketUniqueId commId, int rank) {
  return hocketCommInitRankConfig(comm, nranks, commId, rank, nullptr);
}

hocketResult_t hocketCommInitRankConfig(hocketComm_t* comm, int nranks, hocketUniqueId commId, int rank,
                                        hocketConfig_t* config) {
  const auto check = [=]() -> Status {
    if (nranks >= 1 && rank >= 0 && rank < nranks) return {};
    return Status(Code::kInvalidArgument, fmt::format("rank: {} is not among nranks {}", rank, nranks));
  };
  return create(comm, config, check, {}, [=](Session*, const CommunicatorOptions& options) {
    return hocket::create_by_id(std::string(commId.internal, sizeof commId.internal), rank, nranks, options);
  });
}

hocketResult_t hocketCommInitRankScalable(hocketComm_t* newcomm, int nranks, int myrank, int nId,
                                          hocketUniqueId* commIds, hocketConfig_t* config) {
  if (nId < 1) return report(Status(Code::kInvalidArgument, fmt::format("nId: {} ids", nId)));
  if (commIds == nullptr) return report(null_pointer("commIds"));
  return hocketCommInitRankConfig(newcomm, nranks, commIds[0], myrank, config);
}

hocketResult_t hocketCommInitAll(hocketComm_t* comms, int ndev, const int* /*devlist*/) {
  if (comms == nullptr) return report(null_pointer("comms"));
  if (ndev < 1) return report(Status(Code::kInvalidArgument, fmt::format("ndev: {} ranks", ndev)));
  hocketUniqueId id;
  if (const hocketResult_t result = hocketGetUniqueId(&id); result != hocketSuccess) return result;
  // Within an outer group the ranks join at its end: the handles go straight to where the caller wants them.
  std::fill_n(comms, ndev, nullptr);
  hocketGroupStart();
  for (int rank = 0; rank < ndev; ++rank) hocketCommInitRank(&comms[rank], ndev, id, rank);
  const hocketResult_t result = hocketGroupEnd();
  if (result == hocketSuccess) return result;
  for (int rank = 0; rank < ndev; ++rank) hocketCommAbort(std::exchange(comms[rank], nullptr));
  return result;
}

hocketResult_t hocketCommInitFromEnvironment(hocketComm_t* comm, hocketConfig_t* config) {
  return create(
      comm, config, [] { return Status(); }, {},
      [](Session*, const CommunicatorOptions& options) { return hocket::create_from_environment(options); });
}

hocketResult_t hocketCommSplit(hocketComm_t comm, int color, int key, hocketComm_t* newcomm, hocketConfig_t* config) {
  const auto check = [=]() -> Status {
    if (color >= 0 || color == HOCKET_SPLIT_NOCOLOR) return {};
    return Status(Code::kInvalidArgument, fmt::format("color: {} is negative and not HOCKET_SPLIT_NOCOLOR", color));
  };
  const auto make = [=](Session* parent, const CommunicatorOptions& options) {
    return hocket::split(*parent, color, key, options);
  };
  return create(newcomm, config, check, {comm, true, color == HOCKET_SPLIT_NOCOLOR}, make);
}

hocketResult_t hocketCommFinalize(hocketComm_t comm) { return finalize(comm, false); }

hocketResult_t hocketCommDestroy(hocketComm_t comm) {
  if (comm == nullptr) return hocketSuccess;
  if (const auto pending = pending_creation(comm); pending != nullptr) pending->wait();
  const hocketResult_t result = finalize(comm, true);
  if (hocket::may_wait().ok()) remove(comm);
  return result;
}

hocketResult_t hocketCommAbort(hocketComm_t comm) {
  if (comm == nullptr) return hocketSuccess;
  const hocketResult_t result = guarded([&] {
    const auto pin = sessions().pin(comm);
    if (!pin) return report(no_communicator());
    if (pin->pending != nullptr) pin->pending->abandon();
    if (!pin->opened().ok()) return hocketSuccess;
    hocket::abort(*pin->communicator);
    pin->phase = Session::Phase::kFinalized;
    return report(hocket::may_wait());
  });
  if (hocket::may_wait().ok()) remove(comm);
  return result;
}

hocketResult_t hocketCommGetAsyncError(hocketComm_t comm, hocketResult_t* asyncError) {
  return guarded([&] {
    const auto pin = sessions().pin(comm);
    if (!pin) return report(no_communicator());
    if (asyncError == nullptr) return report(null_pointer("asyncError"), &*pin);
    *asyncError = state_of(*pin, pin.held());
    return hocketSuccess;
  });
}

hocketResult_t hocketCommCount(const hocketComm_t comm, int* count) {
  return with_session(comm, [&](Session& session) -> Status {
    if (count == nullptr) return null_pointer("count");
    *count = session.communicator->ranks();
    return {};
  });
}

hocketResult_t hocketCommUserRank(const hocketComm_t comm, int* rank) {
  return with_session(comm, [&](Session& session) -> Status {
    if (rank == nullptr) return null_pointer("rank");
    *rank = session.communicator->rank();
    return {};
  });
}

hocketResult_t hocketCommCuDevice(const hocketComm_t comm, int* device) {
  return with_session(comm, [&](Session& session) -> Status {
    if (device == nullptr) return null_pointer("device");
    *device = session.communicator->cuda_device();
    return {};
  });
}

hocketResult_t hocketCommMemStats(hocketComm_t comm, hocketCommMemStat_t stat, uint64_t* value) {
  return with_session(comm, [&, number = static_cast<int>(stat)](Session& session) -> Status {
    if (value == nullptr) return null_pointer("value");
    const auto& budget = session.communicator->mesh().budget();
    switch (number) {
      case hocketStatPipeBudget:
        *value = budget.bytes();
        return {};
      case hocketStatPipeMemory:
        *value = budget.held();
        return {};
      default:  // a C program's enum may hold any number
        return Status(Code::kInvalidArgument, fmt::format("stat: {} is none", number));
    }
  });
}

hocketResult_t hocketRedOpCreatePreMulSum(hocketRedOp_t* op, void* scalar, hocketDataType_t datatype,
                                          hocketScalarResidence_t residence, hocketComm_t comm) {
  return with_session(comm, [&, where = static_cast<int>(residence)](Session& session) -> Status {
    if (op == nullptr) return null_pointer("op");
    if (scalar == nullptr) return null_pointer("scalar");
    if (static_cast<unsigned>(datatype) >= hocketNumTypes) {
      return Status(Code::kInvalidArgument, "datatype: there is no such type");
    }
    if (where != hocketScalarDevice && where != hocketScalarHostImmediate) {
      return Status(Code::kInvalidArgument, fmt::format("residence: {} is none", where));
    }
    hocket::Reduction reduction;
    reduction.scaled = true;
    reduction.scalar_type = static_cast<hocket::DataType>(datatype);
    if (where == hocketScalarDevice && !hocket::check_host_memory("scalar", scalar).ok()) {
      reduction.scalar_elsewhere = scalar;
    } else {
      std::memcpy(reduction.scalar, scalar, hocket::element_bytes(reduction.scalar_type));
    }
    const Result<int32_t> handle = session.communicator->reductions().create(std::move(reduction));
    if (!handle.ok()) return handle.status();
    *op = static_cast<hocketRedOp_t>(*handle);
    return {};
  });
}

hocketResult_t hocketRedOpCreate(hocketRedOp_t* op, hocketReduceFunction_t function, void* context, int commutative,
                                 hocketComm_t comm) {
  struct Callback {
    hocketReduceFunction_t function;
    void* context;
  };
  return with_session(comm, [&](Session& session) -> Status {
    if (op == nullptr) return null_pointer("op");
    if (function == nullptr) return null_pointer("function");
    auto callback = std::make_shared<Callback>(Callback{function, context});
    hocket::Reduction reduction;
    reduction.user = [](const void* in, void* inout, size_t count, int datatype, void* of) {
      const auto* called = static_cast<const Callback*>(of);
      called->function(in, inout, count, static_cast<hocketDataType_t>(datatype), called->context);
    };
    reduction.user_context = callback.get();
    reduction.keeps = std::move(callback);
    reduction.commutative = commutative != 0;
    const Result<int32_t> handle = session.communicator->reductions().create(std::move(reduction));
    if (!handle.ok()) return handle.status();
    *op = static_cast<hocketRedOp_t>(*handle);
    return {};
  });
}

hocketResult_t hocketRedOpDestroy(hocketRedOp_t op, hocketComm_t comm) {
  return with_session(
      comm, [&](Session& session) { return session.communicator->reductions().destroy(static_cast<int32_t>(op)); });
}
