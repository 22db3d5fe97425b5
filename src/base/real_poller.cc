// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A poller on epoll, woken through an eventfd.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>

#include "base/real_system.h"

namespace hocket {
namespace {

constexpr int kEventsPerWait = 64;

timespec to_timespec(Duration duration) {
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((duration - seconds).count())};
}

// Old kernels count in whole milliseconds: round up, so that nobody spins through the last one.
int wait_in_milliseconds(int epoll, epoll_event* events, Duration timeout, bool forever) {
  auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  int bounded = static_cast<int>(std::min<int64_t>(milliseconds, INT_MAX));
  return ::epoll_wait(epoll, events, kEventsPerWait, forever ? -1 : bounded);
}

int wait_for_events(int epoll, epoll_event* events, Duration timeout, bool forever) {
#ifdef SYS_epoll_pwait2
  static std::atomic<bool> has_nanoseconds = true;
  if (has_nanoseconds.load(std::memory_order_relaxed)) {
    timespec limit = to_timespec(timeout);
    long count =
        ::syscall(SYS_epoll_pwait2, epoll, events, kEventsPerWait, forever ? nullptr : &limit, nullptr, size_t{0});
    // EPERM: a container's filter that does not know the call yet.
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(count);
    has_nanoseconds.store(false, std::memory_order_relaxed);
  }
#endif
  return wait_in_milliseconds(epoll, events, timeout, forever);
}

class RealPoller : public Poller {
 public:
  RealPoller(Descriptor epoll, Descriptor wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

  Status add(Handle handle) override {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.fd = handle;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, handle, &event) == 0) return {};
    // Once more arms it anew: what is there now is news again.
    if (errno == EEXIST && ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, handle, &event) == 0) return {};
    return system_failure(fmt::format("cannot watch handle {}", handle), errno);
  }

  void remove(Handle handle) override { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, handle, nullptr); }

  std::vector<Handle> wait(Time until) override {
    const bool forever = until == Time::max();
    epoll_event events[kEventsPerWait];
    int count = -1;
    do {
      const Time now = real_system().clock.now();
      count = wait_for_events(epoll_.get(), events, until > now ? until - now : Duration(0), forever);
    } while (count < 0 && errno == EINTR);
    std::vector<Handle> news;
    for (int i = 0; i < count; ++i) {
      // The wake counter is never read: each write is a new edge, and the counter lasts for 2^64 of them.
      if (events[i].data.fd != wake_.get()) news.push_back(events[i].data.fd);
    }
    return news;
  }

  void wake() override { wake_real_poller(wake_.get()); }
  Handle wake_handle() const override { return wake_.get(); }
  Handle handle() const override { return epoll_.get(); }

 private:
  Descriptor epoll_;
  Descriptor wake_;
};

}  // namespace

void wake_real_poller(Handle wake_handle) {
  const uint64_t one = 1;
  (void)retry_interrupted([&] { return ::write(wake_handle, &one, sizeof one); });
}

Result<std::unique_ptr<Poller>> make_real_poller() {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return system_failure("cannot make a poller", errno);
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return system_failure("cannot make a poller's wake handle", errno);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = wake.get();
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
    return system_failure("cannot watch a poller's wake handle", errno);
  }
  return std::unique_ptr<Poller>(std::make_unique<RealPoller>(std::move(epoll), std::move(wake)));
}

}  // namespace hocket
