// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/direct_memory.h"

#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/settings.h"
#include "comm/stream_slices.h"
#include "cuda/cards.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace hocket {
namespace {

// Nothing waits on our streams, so this takes no longer than the copy and what kernels do there.
Status copy_out(const cuda::Stream& stream, std::byte* to, std::span<const std::byte> from) {
  const cuda::Driver& driver = stream.driver();
  const cuda::Entered entered(driver, stream.context());
  HOCKET_TRY(stream.copy(to, from.data(), from.size()));
  const Result<cuda::KeptEvent> copied = stream.mark();
  if (!copied.ok()) stream.wait_until_idle();
  HOCKET_TRY(copied.status());
  cuda::DriverResult state;
  while ((state = driver.event_query(copied->get())) == cuda::kNotReady) std::this_thread::yield();
  return checked(driver, state, "cuEventQuery");
}

// The driver is asked here, in the program's thread, and not when a call is under way.
Result<std::shared_ptr<const BeyondHost>> share(const cuda::Driver& driver, std::span<const std::byte> memory) {
  const cuda::Context context = cuda::current_context();
  if (context == nullptr) return Status(Code::kCuda, "the thread uses no device");
  Result<cuda::DmaBuf> shared = cuda::share_with_cards(driver, memory);
  HOCKET_TRY(shared.status());
  const Result<const OwnStreams*> streams = own_streams(driver, context);
  HOCKET_TRY(streams.status());
  auto beyond = std::make_shared<BeyondHost>();
  beyond->dma_buf = std::move(shared->descriptor);
  beyond->offset = shared->offset;
  beyond->copy_out = [&stream = (*streams)->front()](std::byte* to, std::span<const std::byte> from) {
    return copy_out(stream, to, from);
  };
  return std::shared_ptr<const BeyondHost>(std::move(beyond));
}

// Never destroyed: memory may be in use when the process ends.
struct Ranges {
  std::mutex mutex;
  std::map<const void*, LastingMemory::Hold> lasting;  // by where they begin; guarded by mutex
};

Ranges& ranges() {
  static auto& all = *new Ranges;
  return all;
}

}  // namespace

std::shared_ptr<const BeyondHost> beyond_host(const cuda::Driver& driver, std::span<const std::byte> memory) {
  if (!settings().ok() || !settings()->device_pipes) return nullptr;
  Result<std::shared_ptr<const BeyondHost>> shared = share(driver, memory);
  if (shared.ok()) return std::move(*shared);
  static std::once_flag told;
  std::call_once(
      told, [&] { log_warn("cards do not reach device memory, so kernels copy it: {}", shared.status().message()); });
  return nullptr;
}

void begin_direct_memory(const cuda::Driver& driver, std::span<const std::byte> memory) {
  std::shared_ptr<const BeyondHost> beyond = beyond_host(driver, memory);
  if (beyond == nullptr) return;
  const std::lock_guard lock(ranges().mutex);
  ranges().lasting.try_emplace(memory.data(), memory, std::move(beyond));
}

void end_direct_memory(const void* begin) noexcept {
  const std::lock_guard lock(ranges().mutex);
  const auto found = ranges().lasting.find(begin);
  if (found == ranges().lasting.end()) return;
  LastingMemory::of_process().end_all(found->second.range());
  ranges().lasting.erase(found);
}

}  // namespace hocket
