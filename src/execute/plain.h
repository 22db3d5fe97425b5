// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One slice whose messages carry the values, as batches for device kernels: each result comes out of one combine of all
// sources, as on the host, so that it has the host's bits. Touches no memory, and knows no driver.
#pragma once

#include <vector>

#include "execute/coded.h"
#include "kernels/cuda/batch.h"

namespace hocket {

struct Call;

// Messages of a slice of the call, at most, and the bytes of the longest one as values.
struct MostMessages {
  size_t count = 0;
  size_t bytes = 0;
};
MostMessages most_messages(const Call& call);

class PlainBatches {
 public:
  // Nothing is done to what the slice moves but to copy it.
  static bool copies(const CodedSlice& slice);

  // Begins with a slice, which stays as it is until all has been asked for. All of its memory is aligned to elements,
  // unless it copies.
  void start(const CodedSlice& slice);
  // What the kernels calculate in: the longest integers that everything is aligned to, where they only copy.
  DataType type() const { return type_; }
  // The next batch; false: there is nothing left to be done.
  bool next(device::Batch& batch);

 private:
  bool has_room(const device::Batch& batch) const;
  void add_task(size_t run, device::Batch& batch);
  uint64_t first_mask() const;

  const CodedSlice* slice_ = nullptr;
  DataType type_ = DataType::kUint8;
  size_t per_element_ = 1;        // of what the kernels calculate in
  size_t done_ = 0;               // elements
  std::vector<PieceWalk> walks_;  // where they stand
};

}  // namespace hocket
