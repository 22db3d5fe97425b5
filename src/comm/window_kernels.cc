// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/window_kernels.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "comm/binding.h"
#include "comm/communicator.h"
#include "comm/device_kernels.h"
#include "execute/joint.h"
#include "kernels/cuda/image.h"

namespace hocket {
namespace {

// A rank's buffer, where it is in a window; null: none but that rank uses it.
std::byte* buffer_of(size_t rank, const WindowSpot& spot, const WindowTable& windows) {
  return spot.window == 0 ? nullptr : windows.begins(spot.window)[rank] + spot.offset;
}

// The call of every rank. The plan is ours: all cut the buffers alike.
std::vector<Call> calls_of(const Request& request, const Plan& plan, const WindowTable& windows) {
  std::vector<Call> calls(static_cast<size_t>(plan.ranks));
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    Request its = request;
    if (rank != static_cast<size_t>(plan.rank)) {
      its.send = buffer_of(rank, request.facts.send_spot, windows);
      its.recv = buffer_of(rank, request.facts.recv_spot, windows);
    }
    calls[rank].plan = &plan;
    bind_arithmetic(its, plan.ranks, calls[rank]);
    bind_layouts(its, calls[rank]);
  }
  return calls;
}

}  // namespace

Result<std::shared_ptr<WindowKernels>> WindowKernels::make(const cuda::Stream& stream, Engine& engine,
                                                           Communicator& communicator, const Request& request) {
  Result<cuda::PinnedBlock> block = cuda::pinned_pool(stream.driver()).take(sizeof(uint32_t));
  HOCKET_TRY(block.status());
  const std::shared_ptr<WindowKernels> kernels(new WindowKernels(stream, engine, std::move(*block)));
  HOCKET_TRY(kernels->find_peers(communicator, request));
  HOCKET_TRY(kernels->add_steps(communicator, request));
  return kernels;
}

WindowKernels::WindowKernels(const cuda::Stream& stream, Engine& engine, cuda::PinnedBlock block)
    : stream_(stream),
      engine_(engine),
      block_(std::move(block)),
      word_(*new(block_.memory()) std::atomic<uint32_t>(device::kHeld)) {
  static_assert(sizeof word_ == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);
}

Status WindowKernels::find_peers(Communicator& communicator, const Request& request) {
  for (const WindowSpot& spot : {request.facts.send_spot, request.facts.recv_spot}) {
    if (spot.window == 0) continue;
    Mesh& mesh = communicator.mesh();
    Result<DeviceParts> parts = map_window(stream_.driver(), mesh.windows(), spot.window, communicator.rank());
    if (!parts.ok() && parts.status().code() != Code::kInvalidArgument) {
      // The others take it for granted that we can.
      mesh.fail(Status(parts.status().code(), fmt::format("{}rank {} {}", communicator.prefix(), communicator.rank(),
                                                          parts.status().message())));
      return mesh.status();
    }
    HOCKET_TRY(parts.status());
    parts_.insert(parts_.end(), parts->begin(), parts->end());
  }
  return {};
}

Status WindowKernels::add_steps(Communicator& communicator, const Request& request) {
  const Result<Planned> planned = communicator.planner().plan(request, is_in_place(request, communicator.rank()));
  HOCKET_TRY(planned.status());
  const std::vector<Call> calls = calls_of(request, *planned->plan, communicator.mesh().windows());
  const DataType type = joint_type(calls.front());
  kernel_ = find_kernel(stream_.driver(), device::combine_kernel(type));
  const unsigned most = most_blocks(stream_.driver(), stream_.device());
  if (kernel_ == nullptr || most == 0) {
    return Status(Code::kCuda, fmt::format("device {} has no kernel for {}", stream_.device(), name(type)));
  }
  HOCKET_TRY(load_combine_kernels(stream_.driver()));  // if the window was registered in another context
  add_joint_steps(calls, communicator.rank(), batches_);
  std::erase_if(batches_, [](const device::Batch& batch) { return batch.tasks == 0; });
  for (device::Batch& batch : batches_) {
    batch.word = reinterpret_cast<const uint32_t*>(&word_);
    grids_.push_back(grid_of(batch, element_bytes(type), most));
  }
  done_ = batches_.empty();
  return {};
}

Status WindowKernels::enqueue() const {
  if (batches_.empty()) return {};
  HOCKET_TRY(stream_.wait_until_at_least(reinterpret_cast<const uint32_t*>(&word_), device::kGo));
  for (size_t i = 0; i < batches_.size(); ++i) HOCKET_TRY(stream_.launch(kernel_, grids_[i], &batches_[i]));
  const auto note = [](void* kernels) {
    auto* const its = static_cast<WindowKernels*>(kernels);
    its->done_.store(true, std::memory_order_release);
    its->engine_.wake();
  };
  return stream_.call(note, const_cast<WindowKernels*>(this));
}

void WindowKernels::begin_again() noexcept {
  word_.store(device::kHeld);
  done_ = batches_.empty();
}

Result<std::byte*> WindowKernels::scratch(size_t bytes) {
  return Status(Code::kInternal, fmt::format("a plan for windows of devices wants {} bytes of scratch", bytes));
}

Result<std::optional<size_t>> WindowKernels::run(int /*lane*/, const CodedSlice& /*slice*/) {
  uint32_t held = device::kHeld;
  word_.compare_exchange_strong(held, device::kGo, std::memory_order_release);
  return done_.load(std::memory_order_acquire) ? std::optional<size_t>(0) : std::nullopt;
}

void WindowKernels::stop() { word_.store(device::kStopped, std::memory_order_release); }

}  // namespace hocket
