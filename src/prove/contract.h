// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What each collective promises: which buffers a rank has, what they hold before and must hold after, which chunks are
// equally long, and which memory two buffers share in place.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "plan/plan.h"
#include "prove/prove.h"
#include "prove/terms.h"

namespace hocket::proving {

// One chunk's memory.
struct Cell {
  Buffer buffer = Buffer::kSend;
  int32_t chunk = 0;
};

// What a chunk of the receive buffer must hold in the end.
struct Promise {
  enum class Kind : uint8_t { kAnything, kContribution, kReduction } kind = Kind::kAnything;
  Value contribution;     // kContribution
  Rank contributors = 0;  // kReduction: ranks [0, contributors), of chunk `chunk`
  int32_t chunk = 0;
};

class Contract {
 public:
  Contract(const Plan& plan, const ProveOptions& options);

  // Numbers of chunks, as builders.h says.
  static Status check_chunks(const Plan& plan);

  bool reduces() const;
  bool scans() const { return collective_ == Collective::kScan || collective_ == Collective::kExScan; }
  bool has(Rank rank, Buffer buffer) const;
  int32_t chunks(Buffer buffer) const { return buffer == Buffer::kSend ? send_chunks_ : recv_chunks_; }
  // The memory of a chunk: the same for two chunks that overlap in place.
  Cell cell(Rank rank, Buffer buffer, int32_t chunk) const;
  // Chunks with equal numbers are equally long, others need not be.
  int64_t length(Rank rank, Buffer buffer, int32_t chunk) const;
  // ... as long as a contribution.
  int64_t length(const Value& value) const { return length(value.shift, Buffer::kSend, value.chunk); }
  // What a cell holds at the start: undefined, or a contribution.
  Value before(Rank rank, Cell cell) const;
  Promise after(Rank rank, int32_t chunk) const;

 private:
  bool is_root(Rank rank) const { return rank == root_; }
  // Whose block a chunk is part of, and which part; the chunk that is such a part.
  Rank block(int32_t chunk) const { return chunk / parts_; }
  int32_t part(int32_t chunk) const { return chunk % parts_; }
  int32_t of_block(Rank rank, int32_t part) const { return rank * parts_ + part; }

  Collective collective_;
  Rank ranks_;
  Rank root_;
  int32_t parts_;
  int32_t send_chunks_;
  int32_t recv_chunks_;
  ProveOptions options_;
};

}  // namespace hocket::proving
