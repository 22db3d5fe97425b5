// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Events that are kept for the next call. The driver neither makes nor destroys events while anybody in the process
// copies to pageable memory in a stream that waits (perf/gpu_locks.py), perhaps for the very call that needs one: so
// the engine takes none, but has them with the call, and none is destroyed. Any thread.
#pragma once

#include <utility>

#include "base/status.h"
#include "cuda/driver.h"

namespace hocket::cuda {

class EventPool;

// An event of a context. It is kept again when this object goes, and the driver is not asked then: who waits for it
// on a stream waits for what it stood for.
class KeptEvent {
 public:
  KeptEvent() = default;
  KeptEvent(KeptEvent&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), event_(std::exchange(other.event_, nullptr)) {}
  KeptEvent& operator=(KeptEvent&& other) noexcept;
  ~KeptEvent();

  // In the context, which was entered.
  static Result<KeptEvent> take(const Driver& driver, Context context);
  // Null: none was taken.
  Event get() const { return event_; }

 private:
  KeptEvent(EventPool& pool, Event event) : pool_(&pool), event_(event) {}

  EventPool* pool_ = nullptr;
  Event event_ = nullptr;
};

}  // namespace hocket::cuda
