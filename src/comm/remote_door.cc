// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/remote_door.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace hocket {
namespace {

using Kind = RemoteRequest::Kind;
using Outcome = RemoteReply::Outcome;

// A peer that has not registered its part yet may have done so by then.
constexpr Duration kSoon = std::chrono::milliseconds(10);

}  // namespace

RemoteDoor::RemoteDoor(RemoteMemory& memory, Clock& clock, Ask ask, std::string peer)
    : memory_(memory), clock_(clock), ask_(std::move(ask)), peer_(std::move(peer)) {}

RemoteDoor::Entrance RemoteDoor::begin(const RemoteRequest& request, void* local) {
  using State = Entrance::State;
  const std::lock_guard lock(mutex_);
  if (!is_settled()) return {State::kWait};
  const Time now = clock_.now();
  if (now < rests_until_) return {State::kService};
  const auto found = windows_.find(request.window);
  const bool asks = found == windows_.end() || (!found->second.by_device && now >= found->second.again);
  if (asks) {
    if (end_ == nullptr && (end_ = memory_.open()) != nullptr) ++ends_;
    if (end_ != nullptr) return ask(request.window, end_->card()), Entrance{State::kWait};
    rests_until_ = now + kRest;
    return {State::kService};
  }
  const Known& known = found->second;
  const bool inside = request.offset <= known.bytes && request.bytes <= known.bytes - request.offset;
  if (!known.by_device || !inside) return {State::kService};
  auto* const bytes = static_cast<std::byte*>(local);
  auto transfer = request.kind == Kind::kPut ? end_->put(request.window, request.offset, {bytes, request.bytes})
                                             : end_->get(request.window, request.offset, {bytes, request.bytes});
  return {State::kDevice, std::move(transfer), ends_};
}

bool RemoteDoor::is_settled() {
  if (answer_ != nullptr && answer_->there.load(std::memory_order_acquire)) take_answer();
  if (answer_ == nullptr && closing_) ask(0, {});
  return answer_ == nullptr && !closing_;
}

void RemoteDoor::ask(uint32_t window, std::string card) {
  RemoteRequest request{.kind = Kind::kDoor, .window = window};
  request.data = std::move(card);
  answer_ = ask_(request);
  asked_ = window;
}

void RemoteDoor::take_answer() {
  const auto answer = std::exchange(answer_, nullptr);
  const RemoteReply& reply = answer->reply;
  if (asked_ == 0) {
    closing_ = false;
  } else if (reply.outcome != Outcome::kDone || reply.data.empty()) {
    windows_[asked_] = {false, 0, clock_.now() + (reply.outcome == Outcome::kNotYet ? kSoon : kRest)};
  } else if (const Status entered = end_->enter(asked_, reply.data, reply.limit); entered.ok()) {
    windows_[asked_] = {true, reply.limit};
  } else {
    break_off(entered);
  }
}

void RemoteDoor::report(uint64_t end, const Status& status) {
  const std::lock_guard lock(mutex_);
  if (end != ends_ || end_ == nullptr) return;  // another transfer has told it
  if (status.ok()) {
    rest_ = {};
  } else {
    break_off(status);
  }
}

void RemoteDoor::break_off(const Status& why) {
  rest_ = std::clamp(2 * rest_, kRest, kLongestRest);
  rests_until_ = clock_.now() + rest_;
  log_warn("windows of {} are reached by its service thread for {:g} s: {}", peer_, seconds(rest_), why.message());
  end_.reset();
  windows_.clear();
  answer_.reset();  // to a card that is worth nothing now
  closing_ = true;
}

void RemoteDoor::forget(uint32_t window) {
  const std::lock_guard lock(mutex_);
  windows_.erase(window);
}

}  // namespace hocket
