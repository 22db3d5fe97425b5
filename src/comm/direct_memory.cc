// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/direct_memory.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/settings.h"
#include "comm/stream_slices.h"
#include "cuda/cards.h"
#include "cuda/memory.h"
#include "cuda/pool.h"
#include "cuda/stream.h"

namespace hocket {
namespace {

// Copies memory of a device to the host's by way of pinned memory: a copy to the pipe's own, which may be pageable,
// would wait within the driver for anybody else's (perf/gpu_locks.py). Nothing waits on the stream, so this takes no
// longer than the copy and what kernels do there.
class CopiesToHost {
 public:
  static Result<std::shared_ptr<CopiesToHost>> make(const cuda::Stream& stream) {
    const cuda::Entered entered(stream.driver(), stream.context());
    Result<cuda::MemoryBlock> pinned = cuda::pinned_pool(stream.driver()).take(kBytes);
    HOCKET_TRY(pinned.status());
    Result<cuda::KeptEvent> copied = cuda::KeptEvent::take(stream.driver(), stream.context());
    HOCKET_TRY(copied.status());
    return std::shared_ptr<CopiesToHost>(new CopiesToHost(stream, std::move(*pinned), std::move(*copied)));
  }

  Status copy(std::byte* to, std::span<const std::byte> from) {
    const std::lock_guard lock(mutex_);
    const cuda::Entered entered(stream_.driver(), stream_.context());
    for (; !from.empty(); from = from.subspan(std::min(kBytes, from.size()))) {
      const std::span<const std::byte> part = from.first(std::min(kBytes, from.size()));
      HOCKET_TRY(stream_.copy(pinned_.memory(), part.data(), part.size()));
      HOCKET_TRY(wait());
      to = std::copy_n(pinned_.memory(), part.size(), to);
    }
    return {};
  }

 private:
  static constexpr size_t kBytes = size_t{64} << 10;

  CopiesToHost(const cuda::Stream& stream, cuda::MemoryBlock pinned, cuda::KeptEvent copied)
      : stream_(stream), pinned_(std::move(pinned)), copied_(std::move(copied)) {}

  // For what was put on the stream.
  Status wait() {
    const Status marked = stream_.mark(copied_.get());
    if (!marked.ok()) stream_.wait_until_idle();
    HOCKET_TRY(marked);
    cuda::DriverResult state;
    while ((state = stream_.driver().event_query(copied_.get())) == cuda::kNotReady) std::this_thread::yield();
    return checked(stream_.driver(), state, "cuEventQuery");
  }

  const cuda::Stream stream_;
  std::mutex mutex_;                // of several calls' copies
  const cuda::MemoryBlock pinned_;  // guarded by mutex_
  const cuda::KeptEvent copied_;    // guarded by mutex_
};

// The driver is asked here, in the program's thread, and not when a call is under way.
Result<std::shared_ptr<const BeyondHost>> share(const cuda::Driver& driver, std::span<const std::byte> memory) {
  const cuda::Context context = cuda::current_context();
  if (context == nullptr) return Status(Code::kCuda, "the thread uses no device");
  Result<cuda::DmaBuf> shared = cuda::share_with_cards(driver, memory);
  HOCKET_TRY(shared.status());
  const Result<const OwnStreams*> streams = own_streams(driver, context);
  HOCKET_TRY(streams.status());
  const Result<std::shared_ptr<CopiesToHost>> copies = CopiesToHost::make((*streams)->front());
  HOCKET_TRY(copies.status());
  auto beyond = std::make_shared<BeyondHost>();
  beyond->dma_buf = std::move(shared->descriptor);
  beyond->offset = shared->offset;
  beyond->copy_out = [copies = *copies](std::byte* to, std::span<const std::byte> from) {
    return copies->copy(to, from);
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
