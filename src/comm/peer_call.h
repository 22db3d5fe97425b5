// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A collective on device memory that is no window, between ranks whose kernels reach each other's memory. Where a rank
// has its buffers is its own affair, so all tell each other first (places); if everybody's memory is mapped by
// everybody, kernels make the call where the buffers are, else it is staged. Which of the two, is known when the
// streams have come: what lies on them does for both, so that nobody calls the driver meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/call_places.h"
#include "comm/extents.h"
#include "comm/held_kernels.h"
#include "comm/operation.h"
#include "comm/request.h"
#include "comm/staging.h"

namespace hocket {

class PeerCall final : public Work {
 public:
  struct Made {
    std::unique_ptr<PeerCall> call;
    std::shared_ptr<HeldKernels> kernels;  // to be put on the stream
  };
  // Of a checked request that tells places, in a context that was entered. No call: this rank's memory cannot be
  // reached, so it is staged as any other. May wait a moment for peers to map memory of ours that is new to them.
  static Result<Made> make(const cuda::Stream& stream, Engine& engine, Communicator& communicator,
                           const Request& request);

  void issue(bool blocks = false) override;
  bool advance() override;
  bool ended() const override { return state_ == State::kCalling && current_->ended(); }
  bool examine(Time now) override;
  void set_waiting(bool waiting) override { current_->set_waiting(waiting); }

 private:
  enum class State : uint8_t { kTelling, kCopying, kCalling };
  struct OwnBuffer {
    std::byte* begin = nullptr;
    std::shared_ptr<OfferedMemory> memory;  // null: the call needs no such buffer of ours
    uint64_t offset = 0;
    CallPlaces::Spot spot() const { return {memory == nullptr ? 0 : memory->number(), offset}; }
    bool is_reached() const { return memory == nullptr || memory->is_reached(); }
  };

  PeerCall(Communicator& communicator, const Request& request, cuda::Stream stream);
  bool offer(const Request& request);
  void await_answers();
  Status prepare(Engine& engine, const Request& request);
  Status reserve();
  std::vector<HeldKernels::Launch> launches(const Request& request, const Plan& plan) const;
  void tell();
  void choose();
  Status find_peers();
  Status find(Rank rank, Buffer which, const CallPlaces::Spot& spot, Extent extent);
  void call_staged();
  void note_end();

  const cuda::Stream stream_;
  const CallFacts facts_;
  OwnBuffer send_;
  OwnBuffer recv_;
  StagingPlan staging_;
  cuda::MemoryBlock block_;  // for staging, once it is needed
  std::shared_ptr<HeldKernels> kernels_;
  CallPlaces ours_;
  std::vector<CallPlaces> all_;
  std::vector<std::byte*> buffers_;                                // of all ranks, sends first, and the block
  std::vector<std::shared_ptr<const cuda::MappedMemory>> mapped_;  // while kernels use it
  const std::unique_ptr<Operation> telling_;
  const std::unique_ptr<Operation> combined_;
  const std::unique_ptr<Operation> staged_;  // takes the turn of the one before
  Operation* current_;
  State state_ = State::kTelling;
};

}  // namespace hocket
