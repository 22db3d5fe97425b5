// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Checks what the caller passed, by argument name, before anything is issued.
#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "comm/communicator.h"
#include "comm/request.h"
#include "hocket/hocket.h"

namespace hocket {

// What a call says, not yet checked.
Request make_request(Collective collective, const void* sendbuff, void* recvbuff, size_t count,
                     hocketDataType_t datatype);

// Fills the request's reduction from an operation handle: taken by reference, since it may lie beyond its enumeration.
Status resolve_reduction(const Communicator& communicator, const hocketRedOp_t& op, Request& request);

// Type, operation, root, peer, counts, pointers, alignment and overlap.
Status check_request(const Communicator& communicator, const Request& request);

// Copies one v-form list of `ranks` counts, and its displacements or their packed default.
Status copy_counts(const char* name, const size_t* counts, const size_t* displacements, Rank ranks,
                   std::vector<size_t>& counts_out, std::vector<size_t>& offsets_out);

// This rank's part as the list has it equals what the call says otherwise.
Status check_own_count(const char* list, const std::vector<size_t>& counts, Rank rank, const char* other, size_t count);

}  // namespace hocket
