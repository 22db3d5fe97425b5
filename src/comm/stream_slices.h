// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Slices that are done on streams of our own, in which nothing ever waits: what each lane has under way there, and
// whether it is done. Nobody waits for a stream but at the end of a call that has failed.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "base/system.h"
#include "cuda/stream.h"

namespace hocket {

// As many as the kernels of a call run on beside each other: while one ends, the next ones are under way.
inline constexpr size_t kOwnStreams = 4;
using OwnStreams = std::array<cuda::Stream, kOwnStreams>;

// Those of the context, which was entered; all calls share them.
Result<const OwnStreams*> own_streams(const cuda::Driver& driver, cuda::Context context);

// By one thread at a time. The context of its streams is entered when they are used.
class StreamSlices {
 public:
  // What so many lanes need of the driver; for a call that does not lie on its stream yet.
  Status prepare(const cuda::Stream& stream, size_t lanes);
  bool is_under_way(size_t lane) const { return lanes_[lane].under_way; }
  // How long whoever is about to sleep may do so: nobody wakes him when something has ended. As long as the youngest
  // has taken so far, so that he sees its end after at most twice the time that it took, and long ones cost him few
  // looks.
  Duration next_nap() const;
  // What was put on the stream so far is under way for the lane; it ends as a whole. When it fails, nothing of it is.
  Status begin(size_t lane, const cuda::Stream& stream);
  // Of a lane that has something under way; if it is done, nothing is any more.
  Result<bool> has_ended(size_t lane);
  // Returns when nothing is under way. Kernels wait for nobody: it takes no longer than the last of them, or, where the
  // driver does not say which that is, than those of all calls on the stream.
  void wait();

 private:
  struct Lane {
    cuda::Stream stream;
    cuda::KeptEvent ended;
    bool under_way = false;
    std::chrono::steady_clock::time_point begun{};
  };

  std::vector<Lane> lanes_;
};

}  // namespace hocket
