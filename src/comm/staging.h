// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A call on CUDA memory, made on pinned memory of the host: what it reads is copied there before, what it writes is
// copied back after, both on the caller's stream. Pinned memory of the caller's is used where it is.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "comm/request.h"
#include "cuda/memory.h"
#include "cuda/pool.h"
#include "cuda/stream.h"

namespace hocket {

// Whether the call has CUDA memory, so that it follows a stream whatever the caller says.
bool uses_cuda_memory(const cuda::Driver& driver, const Request& request, Rank rank, Rank ranks);

// Fails where a buffer cannot follow the stream.
Status check_buffers(const cuda::Stream& stream, const Request& request, Rank rank, Rank ranks);

// Kernels of the stream's device reach the buffers, and at least one is in memory of devices.
bool kernels_reach(const cuda::Stream& stream, const Request& request, Rank rank, Rank ranks);

// Which bytes of a call's buffers are staged, and where in a block of pinned memory.
struct StagingPlan {
  struct Piece {
    std::byte* buffer = nullptr;
    size_t at = 0;  // in the block
    size_t bytes = 0;
  };
  std::vector<Piece> in;   // copied before
  std::vector<Piece> out;  // and after
  // Where the buffers begin in the block; nothing: they are not staged.
  std::optional<size_t> send_at;
  std::optional<size_t> recv_at;
  size_t bytes = 0;  // of the block; 0: none is needed
};
// Of a checked request. Fails where a buffer cannot follow the stream.
Result<StagingPlan> plan_staging(const cuda::Stream& stream, const Request& request, Rank rank, Rank ranks);

class Staging {
 public:
  // Points the request, which was checked, to pinned memory, in a context that was entered. Fails where a buffer cannot
  // follow the stream.
  static Result<Staging> make(const cuda::Stream& stream, Request& request, Rank rank, Rank ranks);
  Status copy_in(const cuda::Stream& stream) const;
  Status copy_out(const cuda::Stream& stream) const;

 private:
  StagingPlan plan_;
  cuda::MemoryBlock block_;
};

}  // namespace hocket
