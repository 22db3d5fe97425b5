// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A collective that one group issues for all ranks, on memory of devices that reach each other: kernels combine
// straight out of and into the ranks' buffers, in the order of the ranks' streams. Nothing is staged, no pipe is used,
// and nobody waits.
#pragma once

#include <optional>
#include <vector>

#include "comm/request.h"
#include "cuda/stream.h"
#include "kernels/cuda/batch.h"

namespace hocket {

// One rank's part.
struct JointMember {
  Rank rank = 0;
  const Request* request = nullptr;  // checked
  cuda::Stream stream;
};

class JointCall {
 public:
  // The members are those of all ranks, by rank. Nothing: the call has to be staged.
  static std::optional<JointCall> make(const std::vector<JointMember>& members);
  // Puts it on the streams. When it fails, the buffers are undefined once the streams have come so far.
  Status enqueue() const;

 private:
  // What one device does, on the stream of one of its ranks.
  struct Part {
    cuda::Stream stream;
    unsigned multiprocessors = 0;
    std::vector<device::Batch> batches;
  };

  bool add_parts(const std::vector<JointMember>& members);
  Status launch(const Part& part) const;

  cuda::Kernel kernel_ = nullptr;
  DataType type_ = DataType::kUint8;   // of the kernel
  std::vector<cuda::Stream> streams_;  // each once
  std::vector<Part> parts_;
};

}  // namespace hocket
