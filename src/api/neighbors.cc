// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Neighbour exchange: as many sends and receives in one group.
#include <fmt/format.h>

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

// The part of a buffer that is one neighbour's; each begins behind the one before where no displacements are given.
class Parts {
 public:
  Parts(const void* buffer, const size_t* counts, const size_t* displacements, size_t element)
      : buffer_(static_cast<const char*>(buffer)), counts_(counts), displacements_(displacements), element_(element) {}

  const char* next() {
    const size_t at = displacements_ != nullptr ? displacements_[index_] : packed_;
    packed_ += counts_[index_++];
    return buffer_ == nullptr ? nullptr : buffer_ + at * element_;
  }

 private:
  const char* buffer_;
  const size_t* counts_;
  const size_t* displacements_;
  size_t element_;
  size_t index_ = 0;
  size_t packed_ = 0;
};

}  // namespace

hocketResult_t hocketNeighborAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                       void* recvbuff, const size_t* recvcounts, const size_t* rdispls, int nNeighbors,
                                       const int* neighbors, hocketDataType_t datatype, hocketComm_t comm,
                                       hocketStream_t stream) {
  const hocketResult_t checked = hocket::with_call(
      comm, [&](hocket::Session&) { return check(nNeighbors, neighbors, sendcounts, recvcounts, datatype); });
  if (checked != hocketSuccess) return checked;
  const size_t element = hocket::element_bytes(static_cast<hocket::DataType>(datatype));
  Parts outgoing(sendbuff, sendcounts, sdispls, element);
  Parts incoming(recvbuff, recvcounts, rdispls, element);
  hocketGroupStart();
  for (int i = 0; i < nNeighbors; ++i) {
    // What is wrong with one drops the group, and its end says so.
    hocketSend(outgoing.next(), sendcounts[i], datatype, neighbors[i], comm, stream);
    hocketRecv(const_cast<char*>(incoming.next()), recvcounts[i], datatype, neighbors[i], comm, stream);
  }
  return hocketGroupEnd();
}
