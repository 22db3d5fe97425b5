// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "work.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "errors.h"
#include "interruption.h"
#include "tensors.h"

namespace hocket_torch {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

std::string CallTensors::about() const {
  std::string text = std::string(" in ") + name();
  const std::vector<at::Tensor>& shown = outputs.empty() ? inputs : outputs;
  if (!shown.empty()) text += " of " + describe(shown.front());
  return text;
}

std::optional<std::vector<at::Tensor>> CallTensors::noted() const {
  return std::make_optional(inputs.empty() ? outputs : inputs);
}

void give_up(int rank, milliseconds limit, const std::string& about, uint64_t sequence) {
  TORCH_CHECK_WITH(DistBackendError, false, "hocket rank ", rank, ": Timed out waiting ", limit.count(), " ms", about,
                   " #", sequence);
}

Work::Work(int rank, uint64_t sequence, CallTensors tensors, hocketComm_t comm)
    : c10d::Work(rank, tensors.type, tensors.title, tensors.noted()),
      tensors_(std::move(tensors)),
      sequence_(sequence),
      comm_(comm) {}

void Work::end_well() { finish(); }

void Work::ends_on(std::shared_ptr<Lane> lane, milliseconds limit) {
  lane_ = std::move(lane);
  mark_ = lane_->mark();
  limit_ = limit;
}

void Work::begins_when(Find find, milliseconds limit) {
  find_ = std::move(find);
  limit_ = limit;
}

bool Work::has_begun() {
  const std::lock_guard lock(beginning_);
  if (find_ && find_(*this)) find_ = nullptr;
  return !find_;
}

// Nobody wakes who waits for anybody: looks again and again, soon less often.
bool Work::begin(milliseconds limit) {
  if (has_begun()) return true;
  const MainWaits waits(comm_);
  constexpr microseconds kLongestNap(200);
  const auto end = steady_clock::now() + limit;
  for (microseconds nap(0); !has_begun(); nap = std::min(nap + microseconds(1), kLongestNap)) {
    if (limit.count() > 0 && steady_clock::now() > end) return false;
    std::this_thread::sleep_for(nap);
  }
  return true;
}

bool Work::settled() const {
  const std::lock_guard lock(mutex_);
  return completed_;
}

void Work::note(std::exception_ptr exception) {
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return;
    completed_ = true;
    exception_ = std::move(exception);
    // With the inputs' memory goes what the caller does not hold itself.
    tensors_.inputs.clear();
  }
  if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
}

bool Work::await(milliseconds limit) {
  if (!begin(limit)) return false;
  if (settled()) return true;
  int done = 0;
  check(lane_->wait(mark_, limit, &done), [this] { return about(); });
  return done != 0;
}

void Work::settle() {
  if (settled()) return;
  try {
    if (!begin(limit_)) give_up_on_all(limit_);
    await(milliseconds(0));
    note(nullptr);
  } catch (...) {
    note(std::current_exception());
  }
}

bool Work::isCompleted() {
  if (settled()) return true;
  if (!has_begun()) return false;
  if (!settled() && !lane_->done(mark_)) return false;
  settle();
  return true;
}

bool Work::isSuccess() const {
  const std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

bool Work::wait(milliseconds timeout) {
  const bool is_own_limit = timeout == kNoTimeout && limit_.count() > 0;
  const milliseconds limit = is_own_limit ? limit_ : timeout;
  if (limit.count() > 0 && !settled() && !await(limit)) {
    if (is_own_limit) give_up_on_all(limit);
    give_up(rank_, limit, about(), sequence_);
  }
  settle();
  const std::lock_guard lock(mutex_);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void Work::give_up_on_all(milliseconds limit) const {
  hocketCommRevoke(comm_, HOCKET_REVOKE_DEFAULT);
  give_up(rank_, limit, about(), sequence_);
}

void Work::abort() {
  if (!settled()) hocketCommRevoke(comm_, HOCKET_REVOKE_DEFAULT);
}

std::string Work::about() const {
  const std::lock_guard lock(mutex_);
  return tensors_.about();
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  {
    const std::lock_guard lock(mutex_);
    if (future_ != nullptr) return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  }
  auto self = c10::intrusive_ptr<Work>::reclaim_copy(this);
  if (isCompleted()) {
    complete_future();
  } else if (has_begun()) {
    lane_->complete(std::move(self));
  } else {
    completer_ = std::make_unique<Completer>();
    completer_->add(std::move(self));
  }
  return future_;
}

void Work::complete_future() {
  if (exception_) {
    future_->setError(exception_);
  } else {
    future_->markCompleted(c10::IValue(tensors_.outputs));
  }
}

}  // namespace hocket_torch
