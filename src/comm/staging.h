// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A call on CUDA memory, made on pinned memory of the host: what it reads is copied there before, what it writes is
// copied back after, both on the caller's stream. Pinned memory of the caller's is used where it is.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/request.h"
#include "cuda/memory.h"
#include "cuda/pinned.h"
#include "cuda/stream.h"

namespace hocket {

// Whether the call has CUDA memory, so that it follows a stream whatever the caller says.
bool uses_cuda_memory(const cuda::Driver& driver, const Request& request, Rank rank, Rank ranks);

// Fails where a buffer cannot follow the stream.
Status check_buffers(const cuda::Stream& stream, const Request& request, Rank rank, Rank ranks);

class Staging {
 public:
  // Points the request, which was checked, to pinned memory, in a context that was entered. Fails where a buffer cannot
  // follow the stream.
  static Result<Staging> make(const cuda::Stream& stream, Request& request, Rank rank, Rank ranks);
  Status copy_in(const cuda::Stream& stream) const { return copy(stream, in_); }
  Status copy_out(const cuda::Stream& stream) const { return copy(stream, out_); }

 private:
  struct Piece {
    const void* from;
    void* to;
    size_t bytes;
  };
  static Status copy(const cuda::Stream& stream, const std::vector<Piece>& pieces);

  cuda::PinnedBlock block_;
  std::vector<Piece> in_;
  std::vector<Piece> out_;
};

}  // namespace hocket
