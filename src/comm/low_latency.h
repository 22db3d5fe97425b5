// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Small collectives on windows of device memory whose ranks have a device each: one kernel on the caller's stream,
// which puts packets into the peers' inboxes and waits for theirs (kernels/cuda/low_latency.h). The stream waits for no
// host. The executor, beside it, has all ranks meet, so that calls that do not match, and ranks that die or do not
// come, are told as of any other call; what fails stops the kernel.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/system.h"
#include "comm/mesh_windows.h"
#include "comm/request.h"
#include "cuda/pool.h"
#include "cuda/stream.h"
#include "execute/coded.h"
#include "kernels/cuda/low_latency_work.h"

namespace hocket {

class Communicator;

// Memory of this rank's device for what peers send, empty; and the order of the kernels that use it.
class Inbox {
 public:
  // In the context that the thread uses. Loads the kernels, and waits until the memory is cleared.
  static Result<std::shared_ptr<Inbox>> make(const cuda::Driver& driver, System& system, int32_t ranks);
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  std::span<std::byte> memory() const { return memory_; }
  // After all that was launched before, on whichever streams; but what is captured has its place by its graph.
  Status launch(const cuda::Stream& stream, cuda::Kernel kernel, cuda::Grid grid, const device::LowLatencyWork& work);

 private:
  Inbox(std::span<std::byte> memory, cuda::KeptEvent launched) : memory_(memory), launched_(std::move(launched)) {}

  const std::span<std::byte> memory_;
  std::mutex mutex_;
  const cuda::KeptEvent launched_;     // the last kernel's
  cuda::StreamHandle last_ = nullptr;  // its stream; guarded by mutex_
};

// Whether such kernels make the call, whose buffers were found to be windows of devices. The same answer on all ranks.
bool fits_low_latency(const WindowTable& windows, const Request& request);

class LowLatencyCall final : public SliceRunner {
 public:
  // Of a call that fits, in a context that was entered.
  static Result<std::shared_ptr<LowLatencyCall>> make(const cuda::Stream& stream, Communicator& communicator,
                                                      const Request& request);
  // Puts it on the stream, which keeps the object until it has passed it.
  Status enqueue();
  // The call is not made after all. If its kernel was launched, peers may have taken what it sent, so that nobody can
  // count calls any more: the communicator fails.
  void cancel();
  // The stream comes to it once more.
  void begin_again() noexcept;

  // Its plan needs none.
  Result<std::byte*> scratch(size_t bytes) override;
  // The kernel does the whole call.
  Result<std::optional<size_t>> run(int lane, const CodedSlice& slice) override;
  // The kernel ends, or does not begin.
  void stop() override;

 private:
  LowLatencyCall(const cuda::Stream& stream, Communicator& communicator, cuda::MemoryBlock block);

  const cuda::Stream stream_;
  Communicator& communicator_;
  const std::shared_ptr<Inbox> inbox_;
  const cuda::MemoryBlock block_;
  device::LowLatencyControl& control_;
  std::vector<std::shared_ptr<const void>> keeps_;  // the peers' inboxes
  cuda::Kernel kernel_ = nullptr;
  cuda::Grid grid_;
  device::LowLatencyWork work_;
  bool launched_ = false;
  Time begun_{};  // since when the kernel is known to run
};

}  // namespace hocket
