// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/events.h"

#include <map>
#include <mutex>
#include <vector>

namespace hocket::cuda {
class EventPool {
 public:
  // Null: there is none.
  Event find() {
    const std::lock_guard lock(mutex_);
    if (events_.empty()) return nullptr;
    const Event event = events_.back();
    events_.pop_back();
    return event;
  }
  void put(Event event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }

 private:
  std::mutex mutex_;
  std::vector<Event> events_;  // guarded by mutex_
};

namespace {

// Never destroyed: at the end of the process the driver may be gone before them.
EventPool& event_pool(Context context) {
  static auto& mutex = *new std::mutex;
  static auto& pools = *new std::map<Context, EventPool>;  // guarded by mutex
  const std::lock_guard lock(mutex);
  return pools[context];
}

}  // namespace

KeptEvent& KeptEvent::operator=(KeptEvent&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(event_, other.event_);
  return *this;
}

KeptEvent::~KeptEvent() {
  if (event_ != nullptr) pool_->put(event_);
}

Result<KeptEvent> KeptEvent::take(const Driver& driver, Context context) {
  EventPool& pool = event_pool(context);
  if (const Event kept = pool.find(); kept != nullptr) return KeptEvent(pool, kept);
  Event made = nullptr;
  HOCKET_TRY(checked(driver, driver.event_create(&made, kNoTiming), "cuEventCreate"));
  return KeptEvent(pool, made);
}

}  // namespace hocket::cuda
