// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Neighbour exchange: as many sends and receives in one group.
#include <fmt/format.h>

#include <vector>

#include "api/arguments.h"
#include "api/group.h"
#include "api/session.h"
#include "comm/request.h"
#include "hocket/hocket.h"

namespace {

using hocket::Code;
using hocket::null_pointer;
using hocket::Status;

Status check(int count, const int* neighbors, const size_t* sendcounts, const size_t* recvcounts,
             hocketDataType_t datatype) {
  if (count < 0) return Status(Code::kInvalidArgument, fmt::format("nNeighbors: {} is negative", count));
  if (static_cast<unsigned>(datatype) >= hocketNumTypes) {
    return Status(Code::kInvalidArgument, "datatype: there is no such type");
  }
  if (count == 0) return {};
  if (neighbors == nullptr) return null_pointer("neighbors");
  if (sendcounts == nullptr) return null_pointer("sendcounts");
  return recvcounts == nullptr ? null_pointer("recvcounts") : Status();
}

// The parts of a buffer, each neighbour's; one begins behind the other where no displacements are given.
struct Parts {
  std::vector<size_t> counts, offsets;

  Status take(const char* name, const size_t* given, const size_t* displacements, int neighbors) {
    return hocket::copy_counts(name, given, displacements, neighbors, counts, offsets);
  }
  const char* at(const void* buffer, size_t i, size_t element) const {
    return buffer == nullptr ? nullptr : static_cast<const char*>(buffer) + offsets[i] * element;
  }
};

}  // namespace

hocketResult_t hocketNeighborAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                       void* recvbuff, const size_t* recvcounts, const size_t* rdispls, int nNeighbors,
                                       const int* neighbors, hocketDataType_t datatype, hocketComm_t comm,
                                       hocketStream_t stream) {
  Parts outgoing, incoming;
  const hocketResult_t checked = hocket::with_call(comm, [&](hocket::Session&) -> Status {
    HOCKET_TRY(check(nNeighbors, neighbors, sendcounts, recvcounts, datatype));
    if (nNeighbors == 0) return {};
    HOCKET_TRY(outgoing.take("sendcounts", sendcounts, sdispls, nNeighbors));
    HOCKET_TRY(incoming.take("recvcounts", recvcounts, rdispls, nNeighbors));
    return hocket::check_apart(sendbuff, outgoing.counts, outgoing.offsets, recvbuff, incoming.counts, incoming.offsets,
                               static_cast<hocket::DataType>(datatype));
  });
  if (checked != hocketSuccess) return checked;
  const size_t element = hocket::element_bytes(static_cast<hocket::DataType>(datatype));
  hocketGroupStart();
  for (size_t i = 0; i < outgoing.counts.size(); ++i) {
    // What is wrong with one drops the group, and its end says so.
    hocketSend(outgoing.at(sendbuff, i, element), outgoing.counts[i], datatype, neighbors[i], comm, stream);
    hocketRecv(const_cast<char*>(incoming.at(recvbuff, i, element)), incoming.counts[i], datatype, neighbors[i], comm,
               stream);
  }
  return hocketGroupEnd();
}
