// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sparse collectives of the C API.
#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <vector>

#include "api/arguments.h"
#include "api/group.h"
#include "api/place.h"
#include "api/session.h"
#include "comm/call_range.h"
#include "comm/sparse_call.h"
#include "hocket/hocket.h"

namespace hocket {
namespace {

Status invalid(std::string why) { return {Code::kInvalidArgument, std::move(why)}; }

Result<SparseTensor> tensor_of(const char* name, const hocketSparse_t* sparse, DataType type) {
  if (sparse == nullptr) return null_pointer(name);
  if (sparse->size < sizeof *sparse) {
    return invalid(fmt::format("{}.size: {} is not {}", name, sparse->size, sizeof *sparse));
  }
  const bool by_rows = sparse->layout == hocketSparseCsr;
  if (!by_rows && sparse->layout != hocketSparseCoo) {
    return invalid(fmt::format("{}.layout: there is no layout {}", name, static_cast<int>(sparse->layout)));
  }
  if (by_rows != (sparse->offsets != nullptr)) {
    return invalid(fmt::format("{}.offsets: {}", name, by_rows ? "NULL, where CSR has rows" : "COO has none: NULL"));
  }
  SparseTensor tensor{.rows = sparse->rows,
                      .columns = sparse->columns,
                      .nonzeros = sparse->nonzeros,
                      .offsets = sparse->offsets,
                      .indices = sparse->indices,
                      .values = static_cast<std::byte*>(sparse->values)};
  for (const void* part : {static_cast<const void*>(sparse->offsets), static_cast<const void*>(sparse->indices),
                           static_cast<const void*>(sparse->values)}) {
    HOCKET_TRY(check_host_memory(name, part));
  }
  HOCKET_TRY(check_sparse(name, tensor, type));
  return tensor;
}

Result<SparseTensor> result_of(const hocketSparse_t* recv, const SparseTensor& send, DataType type) {
  Result<SparseTensor> tensor = tensor_of("recv", recv, type);
  HOCKET_TRY(tensor.status());
  if (tensor->values == send.values && send.nonzeros > 0) return invalid("recv.values: it is send.values");
  if (tensor->rows == send.rows && tensor->columns == send.columns) return tensor;
  return invalid(fmt::format("recv: {} rows of {} columns, but send has {} of {}", tensor->rows, tensor->columns,
                             send.rows, send.columns));
}

Result<SparseTensor> checked_send(const hocketSparse_t* send, DataType type) {
  Result<SparseTensor> tensor = tensor_of("send", send, type);
  HOCKET_TRY(tensor.status());
  HOCKET_TRY(check_elements("send", *tensor));
  return tensor;
}

Status check_op(hocketRedOp_t op) {
  if (op == hocketSum || op == hocketAvg) return {};
  return invalid("op: sparse collectives know sum and avg only");
}

uint64_t nonzeros_of(const hocketSparse_t* sparse) {
  return sparse == nullptr || sparse->size < sizeof *sparse ? 0 : sparse->nonzeros;
}

// Runs body(Collectives&, type) -> Status.
template <typename Body>
hocketResult_t call(std::string_view name, const hocketSparse_t* send, hocketComm_t comm, hocketDataType_t datatype,
                    int op, const Body& body) noexcept {
  const CallRange range(name, nonzeros_of(send));
  return with_call(comm, [&](Session& session) -> Status {
    if (in_group()) return {Code::kInvalidUsage, "sparse collectives block: they stay out of groups"};
    if (static_cast<unsigned>(datatype) >= hocketNumTypes) return invalid("datatype: there is no such type");
    const Communicator& communicator = *session.communicator;
    // Those that differ in these do not match.
    ProgramCalls calls(communicator.rank(), communicator.ranks(), digest_of(fmt::format("{} {}", name, op)),
                       std::make_shared<CodedTraffic>(), [&](Request&& request) -> Status {
                         HOCKET_TRY(complete_request(communicator, request));
                         return submit(comm, session, std::move(request), nullptr);
                       });
    return body(calls, arguments(Collective::kAllReduce, 0, datatype).type);
  });
}

}  // namespace
}  // namespace hocket

using hocket::Collectives;
using hocket::DataType;
using hocket::Status;

hocketResult_t hocketAllReduceSparse(const hocketSparse_t* send, hocketSparse_t* recv, hocketDataType_t datatype,
                                     hocketRedOp_t op, hocketComm_t comm) {
  return hocket::call("all_reduce_sparse", send, comm, datatype, op,
                      [&](Collectives& collectives, DataType type) -> Status {
                        HOCKET_TRY(hocket::check_op(op));
                        const auto from = hocket::checked_send(send, type);
                        HOCKET_TRY(from.status());
                        auto to = hocket::result_of(recv, *from, type);
                        HOCKET_TRY(to.status());
                        const Status status = hocket::all_reduce_sparse(collectives, type, op == hocketAvg, *from, *to);
                        recv->nonzeros = to->nonzeros;
                        return status;
                      });
}

hocketResult_t hocketAllReduceSparseToDense(const hocketSparse_t* send, void* recvbuff, hocketDataType_t datatype,
                                            hocketRedOp_t op, hocketComm_t comm) {
  return hocket::call(
      "all_reduce_sparse_to_dense", send, comm, datatype, op, [&](Collectives& collectives, DataType type) -> Status {
        HOCKET_TRY(hocket::check_op(op));
        const auto from = hocket::checked_send(send, type);
        HOCKET_TRY(from.status());
        if (recvbuff == nullptr) return hocket::null_pointer("recvbuff");
        HOCKET_TRY(hocket::check_host_memory("recvbuff", recvbuff));
        return hocket::all_reduce_sparse(collectives, type, op == hocketAvg, *from, static_cast<std::byte*>(recvbuff));
      });
}

hocketResult_t hocketAllGatherSparse(const hocketSparse_t* send, hocketSparse_t* recv, hocketDataType_t datatype,
                                     hocketComm_t comm) {
  return hocket::call("all_gather_sparse", send, comm, datatype, hocketNumOps,
                      [&](Collectives& collectives, DataType type) -> Status {
                        const auto from = hocket::checked_send(send, type);
                        HOCKET_TRY(from.status());
                        if (recv == nullptr) return hocket::null_pointer("recv");
                        std::vector<hocket::SparseTensor> all;
                        for (int rank = 0; rank < collectives.ranks(); ++rank) {
                          auto to = hocket::result_of(recv + rank, *from, type);
                          HOCKET_TRY(to.status());
                          all.push_back(*to);
                        }
                        const Status status = hocket::all_gather_sparse(collectives, type, *from, all);
                        for (size_t rank = 0; rank < all.size(); ++rank) recv[rank].nonzeros = all[rank].nonzeros;
                        return status;
                      });
}
