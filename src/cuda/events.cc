// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/events.h"

#include <map>
#include <mutex>
#include <vector>

#include "cuda/stream.h"

namespace hocket::cuda {
namespace {

// As many calls, and lanes of calls, may be under way in a context before more have to be made.
constexpr size_t kAtHand = 64;

}  // namespace

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
  size_t size() {
    const std::lock_guard lock(mutex_);
    return events_.size();
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

Result<Event> make_event(const Driver& driver) {
  Event event = nullptr;
  HOCKET_TRY(checked(driver, driver.event_create(&event, kNoTiming), "cuEventCreate"));
  return event;
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
  const Result<Event> made = make_event(driver);
  HOCKET_TRY(made.status());
  return KeptEvent(pool, *made);
}

void have_events(Context context) {
  const Driver* const driver = look_for_driver();
  if (driver == nullptr || context == nullptr) return;
  const Entered entered(*driver, context);
  EventPool& pool = event_pool(context);
  while (pool.size() < kAtHand) {
    const Result<Event> made = make_event(*driver);
    if (!made.ok()) return;  // whoever needs one will be told
    pool.put(*made);
  }
}

}  // namespace hocket::cuda
