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
  if (abandoned_) {
    if (made.ok() && *made != nullptr) abort(**made);
  } else if (!made.ok()) {
    failure_ = made.status();
    if (session_ != nullptr && remember(*session_, failure_)) log_warn("{}", failure_.message());
  } else if (session_ != nullptr) {
    session_->communicator = std::move(*made);
    session_->phase.store(Session::Phase::kOpen, std::memory_order_release);
  }
  ended_ = true;
  changed_.notify_all();
}

void PendingCreation::abandon() {
  if (!in_its_process()) return;
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

void PendingCreation::wait() {
  if (!in_its_process()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || abandoned_; });
}

Status PendingCreation::status() const {
  if (ended_) return failure_;
  if (!in_its_process()) {
    return Status(
        Code::kInvalidUsage,
        fmt::format("comm: process {} was creating it and was forked: this is process {}", process_, ::getpid()));
  }
  return Status(Code::kInvalidUsage, "comm: it is still being created: hocketCommGetAsyncError tells when it has been");
}

bool PendingCreation::under_way() const { return in_its_process() && !ended_; }

bool PendingCreation::in_its_process() const { return ::getpid() == process_; }

}  // namespace hocket
