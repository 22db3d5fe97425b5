// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A collective on windows of device memory: kernels combine straight out of and into the ranks' buffers, on the
// caller's stream. They lie there from the beginning, behind a wait for a word; the executor, whose plan has all ranks
// meet before its steps and after them, lets them go when all have come and goes on when they are done. No kernel
// waits, so ranks may share a device, and the engine calls no function of CUDA's.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "comm/device_windows.h"
#include "comm/queue.h"
#include "comm/request.h"
#include "cuda/pinned.h"
#include "cuda/stream.h"
#include "execute/coded.h"
#include "kernels/cuda/batch.h"

namespace hocket {

class Communicator;

class WindowKernels final : public SliceRunner {
 public:
  // Of a checked request whose windows were found to be for kernels (call_windows.h), in a context that was entered.
  static Result<std::shared_ptr<WindowKernels>> make(const cuda::Stream& stream, Engine& engine,
                                                     Communicator& communicator, const Request& request);
  // Puts them on the stream, which keeps the object until it has passed them.
  Status enqueue() const;
  // The stream has come to them once more.
  void begin_again() noexcept;

  // Plans of windows need none.
  Result<std::byte*> scratch(size_t bytes) override;
  // All slices of the call are done together.
  Result<std::optional<size_t>> run(int lane, const CodedSlice& slice) override;
  // Kernels that have not begun do nothing any more, and the stream goes on.
  void stop() override;

 private:
  WindowKernels(const cuda::Stream& stream, Engine& engine, cuda::PinnedBlock block);
  Status find_peers(Communicator& communicator, const Request& request);
  Status add_steps(Communicator& communicator, const Request& request);

  const cuda::Stream stream_;
  Engine& engine_;
  const cuda::PinnedBlock block_;
  std::atomic<uint32_t>& word_;  // of kernels/cuda/batch.h
  DeviceParts parts_;            // stay mapped
  cuda::Kernel kernel_ = nullptr;
  std::vector<device::Batch> batches_;
  std::vector<cuda::Grid> grids_;  // by batch
  std::atomic<bool> done_{false};
};

}  // namespace hocket
