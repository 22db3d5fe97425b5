// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Where a call has its place: here (NULL), in a queue, or in a CUDA stream. CUDA memory always follows a CUDA stream.
#pragma once

#include <memory>

#include "api/session.h"
#include "comm/request.h"
#include "cuda/stream.h"
#include "hocket/hocket.h"

namespace hocket {

// Not NULL, no queue's, and CUDA is in this process.
bool is_cuda_stream(hocketStream_t stream);
// Of a stream that is_cuda_stream().
Result<cuda::Stream> find_stream(hocketStream_t stream);
Result<std::shared_ptr<Queue>> queue_of(hocketStream_t stream);
// It is NULL, that of a live queue, or a CUDA stream's.
Status check_stream(hocketStream_t stream);

// The stream of a checked request: the one that was given, or, where that is NULL and the buffers are CUDA memory, the
// default stream. Notes in the request what other processes may not read.
Result<hocketStream_t> stream_of(const Communicator& communicator, Request& request, hocketStream_t given);

// No memory that CUDA knows.
bool is_plain(const void* send, const void* recv);
// For calls that take memory of the host only.
Status check_host_memory(const char* name, const void* buffer);

}  // namespace hocket
