// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The chunks that a list of regions names, one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace hocket {

inline int64_t chunk_count(const std::vector<Region>& regions) {
  int64_t count = 0;
  for (const Region& region : regions) count += int64_t{region.count} * region.block;
  return count;
}

// Calls visit(chunk) in order; `chunks` is the number of chunks of the buffer.
template <typename Visit>
void for_each_chunk(const std::vector<Region>& regions, int32_t chunks, Visit&& visit) {
  for (const Region& region : regions) {
    for (int64_t block = 0; block < region.count; ++block) {
      int64_t chunk = (region.first + block * region.stride) % chunks;
      if (chunk < 0) chunk += chunks;
      for (int32_t i = 0; i < region.block; ++i) {
        visit(static_cast<int32_t>(chunk));
        if (++chunk == chunks) chunk = 0;
      }
    }
  }
}

inline int32_t chunks_of(const Plan& plan, Buffer buffer) {
  switch (buffer) {
    case Buffer::kSend:
      return plan.send_chunks;
    case Buffer::kRecv:
      return plan.recv_chunks;
    case Buffer::kScratch:
      return plan.scratch_chunks;
  }
  return 0;
}

}  // namespace hocket
