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

// What is told: the word in a line of its own, and the late addresses, if there are any.
constexpr size_t kLate = 64;
// Of a late address: which buffer, and behind it the offset in the buffer.
constexpr int kOffsetBits = 44;

size_t late_bytes(const HeldKernels::Launch& launch) { return launch.batch.addresses * sizeof(std::byte*); }

}  // namespace

Result<std::shared_ptr<HeldKernels>> HeldKernels::make(const cuda::Stream& stream, Engine& engine,
                                                       std::vector<Launch> launches, bool told_late, Keeps keeps) {
  std::erase_if(launches, [](const Launch& launch) { return launch.batch.tasks == 0; });
  size_t bytes = kLate;
  for (const Launch& launch : launches) bytes += told_late ? late_bytes(launch) : 0;
  Result<Told> told = take(stream, bytes);
  HOCKET_TRY(told.status());
  const std::shared_ptr<HeldKernels> kernels(new HeldKernels(stream, engine, std::move(*told), std::move(keeps)));
  const unsigned most = multiprocessors(stream.driver(), stream.device());
  size_t at = kLate;
  for (const Launch& launch : launches) {
    HOCKET_TRY(kernels->add(launch, most, told_late ? at : 0));
    at += late_bytes(launch);
  }
  kernels->begin_again();
  return kernels;
}

Result<HeldKernels::Told> HeldKernels::take(const cuda::Stream& stream, size_t bytes) {
  Result<cuda::MemoryBlock> here = cuda::pinned_pool(stream.driver()).take(bytes);
  HOCKET_TRY(here.status());
  Result<cuda::MemoryBlock> there = cuda::device_pool(stream.driver(), stream.context()).take(bytes);
  HOCKET_TRY(there.status());
  return Told{std::move(*here), std::move(*there), bytes};
}

HeldKernels::HeldKernels(const cuda::Stream& stream, Engine& engine, Told told, Keeps keeps)
    : stream_(stream),
      engine_(engine),
      told_(std::move(told)),
      word_(*new(told_.here.memory()) std::atomic<uint32_t>(device::kHeld)),
      keeps_(std::move(keeps)) {
  static_assert(sizeof word_ == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);
}

// `late`: where its addresses are told, in the block; 0: they are known.
Status HeldKernels::add(const Launch& launch, unsigned multiprocessors, size_t late) {
  const Result<cuda::Kernel> kernel = find(launch.type, launch.batch.from_all || launch.batch.to_all);
  HOCKET_TRY(kernel.status());
  const cuda::Grid grid = grid_of(launch.batch, launch.type, multiprocessors);
  const auto addresses_in = [late](const cuda::MemoryBlock& block) {
    return late == 0 ? nullptr : reinterpret_cast<std::byte**>(block.memory() + late);
  };
  launches_.push_back({*kernel, grid, launch.batch, launch.is_last, addresses_in(told_.here)});
  launches_.back().batch.word = reinterpret_cast<const uint32_t*>(told_.there.memory());
  launches_.back().batch.late = addresses_in(told_.there);
  return {};
}

Result<cuda::Kernel> HeldKernels::find(DataType type, bool is_switched) const {
  const cuda::Driver& driver = stream_.driver();
  const cuda::Kernel kernel = is_switched ? find_multicast_kernel(driver, device::multicast_kernel(type))
                                          : find_kernel(driver, device::combine_kernel(type));
  if (kernel != nullptr && multiprocessors(stream_.driver(), stream_.device()) > 0) return kernel;
  return Status(Code::kCuda, fmt::format("device {} has no kernel for {}", stream_.device(), name(type)));
}

// A combine of one source, which begins at once.
Status HeldKernels::bring() const {
  const Result<cuda::Kernel> kernel = find(DataType::kUint8);
  HOCKET_TRY(kernel.status());
  device::Batch copy;
  copy.tasks = 1;
  copy.task[0] = {.count = told_.bytes, .sources = 1, .destinations = 1};
  copy.addresses = 2;
  copy.address[0] = told_.here.memory();
  copy.address[1] = told_.there.memory();
  return stream_.launch(*kernel, {.threads = device::kBlockThreads}, &copy);
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
  HOCKET_TRY(bring());
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

void HeldKernels::stop() {
  word_.store(device::kStopped, std::memory_order_release);
  if (keeps_.on_stop) keeps_.on_stop();
}

}  // namespace hocket
