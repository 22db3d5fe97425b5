// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Events that are kept for the next call. While anybody in the process copies to or from pageable memory in a stream
// that waits, the driver makes no events (perf/gpu_locks.py), and what the stream waits for may be the very call that
// needs one. Any thread.
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

// Has some at hand for calls in the context; null: there is none. Before streams wait.
void have_events(Context context);

}  // namespace hocket::cuda
