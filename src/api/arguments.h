// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Checks what the caller passed, by argument name, before anything is issued.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/status.h"
#include "comm/communicator.h"
#include "comm/request.h"
#include "hocket/hocket.h"

namespace hocket {

// What a call says, not yet checked. An operation is taken by reference, since it may lie beyond its enumeration.
inline CallArguments arguments(Collective collective, size_t count, hocketDataType_t datatype) {
  CallArguments call;
  call.collective = collective;
  call.count = count;
  // Beyond a byte there is no type either; complete_request finds out.
  call.type = static_cast<DataType>(std::min(static_cast<unsigned>(datatype), 255u));
  return call;
}
inline CallArguments&& rooted(CallArguments&& call, int root) {
  call.root = root;
  return std::move(call);
}
inline CallArguments&& reducing(CallArguments&& call, const hocketRedOp_t& op) {
  static_assert(sizeof op == sizeof call.op);
  std::memcpy(&call.op, &op, sizeof op);
  return std::move(call);
}

// Fills the request's reduction from its operation's handle; checks type, operation, root, peer, counts, pointers,
// alignment and overlap.
Status complete_request(const Communicator& communicator, Request& request);

// What the lists of a v-form say is wrong, told as a fault of the call.
Status fault_of(const Communicator& communicator, const Request& request, const Status& fault);

// Copies one v-form list of `ranks` counts, and its displacements or their packed default.
Status copy_counts(const char* name, const size_t* counts, const size_t* displacements, Rank ranks,
                   std::vector<size_t>& counts_out, std::vector<size_t>& offsets_out);

// Elements of this rank's part that no list has.
Status check_count(const char* name, size_t count);

// This rank's part as the list has it equals what the call says otherwise.
Status check_own_count(const char* list, const std::vector<size_t>& counts, Rank rank, const char* other, size_t count);

// Parts of what is received do not overlap each other, nor anything that is sent.
Status check_apart(const void* send, const std::vector<size_t>& send_counts, const std::vector<size_t>& send_offsets,
                   const void* recv, const std::vector<size_t>& recv_counts, const std::vector<size_t>& recv_offsets,
                   DataType type);

}  // namespace hocket
