// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/held_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "comm/device_kernels.h"
#include "kernels/cuda/image.h"

namespace hocket {
namespace {

// The word has a line of its own, before the late addresses.
constexpr size_t kLate = 64;
// Of a late address: which buffer, and behind it the offset in the buffer.
constexpr int kOffsetBits = 44;

size_t late_bytes(const HeldKernels::Launch& launch) { return launch.batch.addresses * sizeof(std::byte*); }

}  // namespace

Result<std::shared_ptr<HeldKernels>> HeldKernels::make(const cuda::Stream& stream, Engine& engine,
                                                       std::vector<Launch> launches, bool told_late,
                                                       std::vector<std::shared_ptr<const void>> keeps) {
  std::erase_if(launches, [](const Launch& launch) { return launch.batch.tasks == 0; });
  size_t bytes = kLate;
  for (const Launch& launch : launches) bytes += told_late ? late_bytes(launch) : 0;
  Result<cuda::PinnedBlock> block = cuda::pinned_pool(stream.driver()).take(bytes);
  HOCKET_TRY(block.status());
  std::byte* at = block->memory() + kLate;
  const std::shared_ptr<HeldKernels> kernels(new HeldKernels(stream, engine, std::move(*block), std::move(keeps)));
  const unsigned most = most_blocks(stream.driver(), stream.device());
  for (const Launch& launch : launches) {
    HOCKET_TRY(kernels->add(launch, most, told_late ? reinterpret_cast<std::byte**>(at) : nullptr));
    at += late_bytes(launch);
  }
  kernels->begin_again();
  return kernels;
}

HeldKernels::HeldKernels(const cuda::Stream& stream, Engine& engine, cuda::PinnedBlock block,
                         std::vector<std::shared_ptr<const void>> keeps)
    : stream_(stream),
      engine_(engine),
      block_(std::move(block)),
      word_(*new(block_.memory()) std::atomic<uint32_t>(device::kHeld)),
      keeps_(std::move(keeps)) {
  static_assert(sizeof word_ == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);
}

Status HeldKernels::add(const Launch& launch, unsigned most_blocks, std::byte** late) {
  const cuda::Kernel kernel = find_kernel(stream_.driver(), device::combine_kernel(launch.type));
  if (kernel == nullptr || most_blocks == 0) {
    return Status(Code::kCuda, fmt::format("device {} has no kernel for {}", stream_.device(), name(launch.type)));
  }
  const cuda::Grid grid = grid_of(launch.batch, element_bytes(launch.type), most_blocks);
  launches_.push_back({kernel, grid, launch.batch, launch.is_last, late});
  launches_.back().batch.word = word();
  launches_.back().batch.late = late;
  return {};
}

Status HeldKernels::launch(bool last) const {
  for (const Prepared& one : launches_) {
    if (one.is_last == last) HOCKET_TRY(stream_.launch(one.kernel, one.grid, &one.batch));
  }
  return {};
}

Status HeldKernels::enqueue() const {
  if (launches_.empty()) return {};
  HOCKET_TRY(stream_.wait_until_at_least(word(), device::kGo));
  HOCKET_TRY(launch(false));
  const auto note = [](void* kernels) {
    auto* const its = static_cast<HeldKernels*>(kernels);
    its->done_.store(true, std::memory_order_release);
    its->engine_.wake();
  };
  return stream_.call(note, const_cast<HeldKernels*>(this));
}

Status HeldKernels::enqueue_last() const { return launch(true); }

void HeldKernels::begin_again() noexcept {
  word_.store(device::kHeld);
  done_ = launches_.empty();
}

std::byte* HeldKernels::late(size_t buffer, size_t offset) {
  return reinterpret_cast<std::byte*>((uintptr_t{buffer + 1} << kOffsetBits) + offset);  // never null
}

void HeldKernels::let_go(uint32_t word, std::span<std::byte* const> buffers) {
  constexpr uintptr_t kOffset = (uintptr_t{1} << kOffsetBits) - 1;
  for (const Prepared& one : launches_) {
    if (one.batch.when != word) continue;
    std::transform(one.batch.address, one.batch.address + one.batch.addresses, one.late, [&](const std::byte* address) {
      const auto mark = reinterpret_cast<uintptr_t>(address);
      return buffers[(mark >> kOffsetBits) - 1] + (mark & kOffset);
    });
  }
  set_word(word);
}

// Unless they were stopped.
void HeldKernels::set_word(uint32_t word) {
  uint32_t held = device::kHeld;
  word_.compare_exchange_strong(held, word, std::memory_order_release);
}

Result<std::byte*> HeldKernels::scratch(size_t bytes) {
  return Status(Code::kInternal, fmt::format("a plan for the memory of devices wants {} bytes of scratch", bytes));
}

Result<std::optional<size_t>> HeldKernels::run(int /*lane*/, const CodedSlice& /*slice*/) {
  set_word(device::kGo);
  return done() ? std::optional<size_t>(0) : std::nullopt;
}

void HeldKernels::stop() { word_.store(device::kStopped, std::memory_order_release); }

}  // namespace hocket
