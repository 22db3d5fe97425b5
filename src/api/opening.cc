// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/opening.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "api/group.h"
#include "comm/service.h"

namespace hocket {
namespace {

constexpr Duration kEndTime = std::chrono::seconds(1);
constexpr Duration kEndLook = std::chrono::milliseconds(1);

// The communicator out of which another is made, kept while that goes on.
class Parent {
 public:
  explicit Parent(const Origin& origin) {
    if (!origin.parent) return;
    if (origin.alone) {
      alone_.emplace(*origin.parent);
    } else {
      pin_.emplace(sessions().pin(*origin.parent));
    }
  }
  Status status() const {
    if (alone_) return alone_->status();
    if (!pin_) return {};
    return session() != nullptr ? session()->opened() : no_communicator();
  }
  // Its failure stays with the parent as well.
  Created make(const Make& make, const CommunicatorOptions& options) const {
    Created made = make(session(), options);
    if (!made.ok() && session() != nullptr) remember(*session(), made.status());
    return made;
  }
  void release() {
    alone_.reset();
    pin_.reset();
  }

 private:
  Session* session() const {
    if (alone_) return alone_->session();
    return pin_ && *pin_ ? &**pin_ : nullptr;
  }

  std::optional<HandleTable<Session>::Pin> pin_;
  std::optional<Occupy> alone_;
};

Result<hocketComm_t> add(std::unique_ptr<Session> session) {
  void* handle = sessions().add(std::move(session));
  if (handle != nullptr) return static_cast<hocketComm_t>(handle);
  return Status(Code::kInvalidUsage, fmt::format("more than {} communicators in one process", sessions().kCapacity));
}

Status create_now(hocketComm_t* comm, const Origin& origin, const Make& make, const CommunicatorOptions& options) {
  const Parent parent(origin);
  HOCKET_TRY(parent.status());
  Created made = parent.make(make, options);
  if (!made.ok()) return made.status();
  *comm = nullptr;
  if (*made == nullptr) return {};
  auto session = std::make_unique<Session>();
  session->communicator = std::move(*made);
  const Result<hocketComm_t> handle = add(std::move(session));
  if (!handle.ok()) return handle.status();
  *comm = *handle;
  return {};
}

// Threads that create. They end by themselves, at the latest by the operation timeout; those that join by a unique id
// also when the service of the process ends.
class Creators {
 public:
  Status start(std::shared_ptr<PendingCreation> pending, bool joins, std::function<void()> body) {
    const std::lock_guard lock(mutex_);
    process_ = ::getpid();
    running_.reserve(running_.size() + 1);  // nothing may fail when it runs
    auto thread = real_system().threads.start("hocket-create", std::move(body));
    if (thread == nullptr) return Status(Code::kSystem, "no thread to create a communicator without blocking");
    running_.push_back({std::move(pending), joins, std::move(thread)});
    return {};
  }
  // Lets go of those whose work has ended.
  void let_go() {
    std::vector<Creator> ended;  // its threads end when the lock is free
    const std::lock_guard lock(mutex_);
    const auto first = std::partition(running_.begin(), running_.end(), [](const Creator& creator) {
      return creator.pending->under_way() || !creator.pending->in_its_process();
    });
    ended.assign(std::move_iterator(first), std::move_iterator(running_.end()));
    running_.erase(first, running_.end());
  }
  // While the process is forked: nobody else holds it in the child.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  // When the process ends: who joins fails without the service, and is waited for, as what it uses may be destroyed
  // next. Not in a child that fork() made.
  void end() {
    if (::getpid() != process_ || nobody_joins()) return;
    process_service().end();
    const Time limit = real_system().clock.now() + kEndTime;
    while (!nobody_joins() && real_system().clock.now() < limit) {
      real_system().threads.sleep_until(real_system().clock.now() + kEndLook);
    }
    let_go();
  }

 private:
  struct Creator {
    std::shared_ptr<PendingCreation> pending;
    bool joins;
    std::unique_ptr<Thread> thread;
  };
  bool nobody_joins() {
    const std::lock_guard lock(mutex_);
    return std::none_of(running_.begin(), running_.end(),
                        [](const Creator& creator) { return creator.joins && creator.pending->under_way(); });
  }

  std::atomic<pid_t> process_ = 0;  // that has started the last one
  std::mutex mutex_;
  std::vector<Creator> running_;  // guarded by mutex_
};

// Never destroyed: some may still be at work when the process ends.
Creators& creators() {
  static auto& instance = *new Creators;
  static const bool prepared =
      std::atexit([] { instance.end(); }) == 0 &&
      ::pthread_atfork([] { instance.lock(); }, [] { instance.unlock(); }, [] { instance.unlock(); }) == 0;
  (void)prepared;
  return instance;
}

Status create_beside(hocketComm_t* comm, const Origin& origin, Make make, const CommunicatorOptions& options) {
  auto parent = std::make_shared<Parent>(origin);
  HOCKET_TRY(parent->status());
  auto session = origin.leaves ? nullptr : std::make_unique<Session>();
  auto pending = std::make_shared<PendingCreation>(session.get());
  hocketComm_t handle = nullptr;
  if (session != nullptr) {
    session->pending = pending;
    session->phase = Session::Phase::kPending;
    const Result<hocketComm_t> added = add(std::move(session));
    if (!added.ok()) return added.status();
    handle = *added;
  }
  creators().let_go();
  Status started = creators().start(pending, !origin.parent, [=, work = std::move(make)]() noexcept {
    Created made =
        caught([&] { return parent->make(work, options); }, [](const Status& status) -> Created { return status; });
    parent->release();  // before anybody is told that the communicator is there
    pending->end(std::move(made));
  });
  if (!started.ok()) {
    sessions().remove(handle);
    return started;
  }
  *comm = handle;
  return {};
}

}  // namespace

void join_creators() { creators().let_go(); }

hocketResult_t open(hocketComm_t* comm, const hocketConfig_t* config, const Status& check, const Origin& origin,
                    Make make) {
  bool blocking = true;
  const auto run = [&]() -> Status {
    if (comm == nullptr) return null_pointer("comm");
    HOCKET_TRY(check);
    Result<Wishes> wishes = wishes_of(config);
    if (!wishes.ok()) return wishes.status();
    blocking = wishes->blocking;
    if (!blocking) return create_beside(comm, origin, std::move(make), wishes->options);
    return run_or_defer(origin.parent.value_or(nullptr),
                        [comm, origin, work = std::move(make), options = std::move(wishes->options)] {
                          return create_now(comm, origin, work, options);
                        });
  };
  const Status status = run();
  if (!status.ok()) group_failed(status);
  return status.ok() && !blocking ? hocketInProgress : report(status);
}

}  // namespace hocket
