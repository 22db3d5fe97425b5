// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The threads of one block, which work in phases on memory that they share. A device runs a phase on all of them at
// once, the host on one after the other, so that its tests run what the device runs. No thread may read what another
// one writes in the same phase: tests find out by turning the order round.
#pragma once

#include "kernels/cuda/batch.h"
#include "kernels/element.h"

namespace hocket::device {

// Of the host, which has no threads of a block; a device has nothing to choose.
enum class ThreadOrder : uint8_t { kForward, kBackward };

class Team {
 public:
  HOCKET_ELEMENT explicit Team(ThreadOrder order = ThreadOrder::kForward) : order_(order) {}

  // Runs phase(thread) for each thread of the block; all of it is done, and seen by all, when this returns.
  template <typename Phase>
  HOCKET_ELEMENT void each(Phase phase) const {
    alone(phase);
#ifdef __CUDA_ARCH__
    __syncthreads();
#endif
  }

  // All that was done alone is seen by all when this returns.
  HOCKET_ELEMENT void wait() const {
    each([](uint32_t) {});
  }

  // As each(), of which threads of other warps than the one that did it see nothing yet.
  template <typename Phase>
  HOCKET_ELEMENT void in_warps(Phase phase) const {
    alone(phase);
#ifdef __CUDA_ARCH__
    __syncwarp();
#endif
  }

  // As each(), of which other threads need to see nothing.
  template <typename Phase>
  HOCKET_ELEMENT void alone(Phase phase) const {
#ifdef __CUDA_ARCH__
    phase(threadIdx.x);
#else
    for (unsigned i = 0; i < kBlockThreads; ++i) {
      phase(order_ == ThreadOrder::kForward ? i : kBlockThreads - 1 - i);
    }
#endif
  }

 private:
  [[maybe_unused]] ThreadOrder order_;
};

}  // namespace hocket::device
