// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One call on tensors of a device. It has its place in a stream of torch's, as NCCL's have: whoever waits for it makes
// the current stream wait, and nobody waits on the host who did not name a limit. Nothing here knows CUDA but by
// torch's generic streams and events.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <hocket/hocket.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "work.h"

namespace hocket_torch {

c10::Stream current_stream(c10::Device device);
// Of CUDA; 0 also where torch was built without.
int64_t count_devices();

// Streams beside the current ones, for each device one to each purpose. Whoever has them guards them.
class SideStreams {
 public:
  c10::Stream of(c10::Device device, int purpose);

 private:
  std::map<std::pair<c10::DeviceIndex, int>, c10::Stream> streams_;
};

class DeviceWork final : public c10d::Work {
 public:
  // `aborted`: whether the communicator has been.
  DeviceWork(int rank, uint64_t sequence, CallTensors tensors, hocketComm_t comm,
             std::shared_ptr<const std::atomic<bool>> aborted, c10::Stream stream);
  // Makes the call, to begin when the current stream has come so far. While `call` runs, the work's stream is the
  // current one.
  void issue(Issue call);
  // It came from this rank.
  void comes_from(int rank) { source_ = rank; }

  // ---- For torch
  bool isCompleted() override;
  bool isSuccess() const override;
  // With a limit the calling thread waits.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  void abort() override;
  int sourceRank() const override { return source_; }
  std::vector<at::Tensor> result() override { return tensors_.outputs; }
  // It is complete at once; who waits for it waits in the stream.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  // Throws if the communicator has failed or was aborted: then the stream goes on, and the result is undefined.
  void check_communicator() const;
  void await(std::chrono::milliseconds limit);

  const CallTensors tensors_;
  const uint64_t sequence_;
  const hocketComm_t comm_;
  const std::shared_ptr<const std::atomic<bool>> aborted_;
  const c10::Stream stream_;
  c10::Event end_;
  int source_ = -1;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // guarded by mutex_
};

}  // namespace hocket_torch
