// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/pending_creation.h"

#include <fmt/format.h>

#include <utility>

#include "api/session.h"
#include "base/log.h"

namespace hocket {

void PendingCreation::end(Result<std::shared_ptr<Communicator>> made) {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  if (abandoned_) {
    if (made.ok() && *made != nullptr) abort(**made);
  } else if (!made.ok()) {
    failure_ = made.status();
    if (session_ != nullptr && remember(*session_, failure_)) log_warn("{}", failure_.message());
  } else if (session_ != nullptr) {
    session_->communicator = std::move(*made);
    session_->phase.store(Session::Phase::kOpen, std::memory_order_release);
  }
  changed_.notify_all();
}

void PendingCreation::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

void PendingCreation::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || abandoned_ || !in_its_process(); });
}

Status PendingCreation::status() {
  const std::lock_guard lock(mutex_);
  if (ended_) return failure_;
  if (!in_its_process()) {
    return Status(
        Code::kInvalidUsage,
        fmt::format("comm: process {} was creating it and was forked: this is process {}", process_, ::getpid()));
  }
  return Status(Code::kInvalidUsage, "comm: it is still being created: hocketCommGetAsyncError tells when it has been");
}

bool PendingCreation::under_way() {
  if (!in_its_process()) return false;  // the thread that creates may have held the lock as the process was forked
  const std::lock_guard lock(mutex_);
  return !ended_;
}

bool PendingCreation::in_its_process() const { return ::getpid() == process_; }

}  // namespace hocket
