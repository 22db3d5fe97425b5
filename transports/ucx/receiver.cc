// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/ucx/receiver.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket {
namespace {

constexpr size_t kAlign = 64;
// Of released messages that no message of ours has told: to tell is a call of the system. Less when nothing is there to
// be read, so that who answers a message does it first.
constexpr uint64_t kTellAt = kUcxWindow / 2;
constexpr uint64_t kTellIdly = kUcxWindow / 4;
// Asking the socket is a call of the system: it is done once in so many looks that find nothing.
constexpr uint32_t kListenEvery = 256;
// What was sent before the sender left may still be on its way.
constexpr auto kGrace = std::chrono::seconds(2);

}  // namespace

UcxReceiver::UcxReceiver(const PipeContext& context, std::shared_ptr<UcxWorker> worker, std::shared_ptr<Socket> socket,
                         std::string name, uint64_t token)
    : system_(context.system),
      state_(std::move(name)),
      max_message_(context.max_message),
      slot_bytes_((max_message_ + kAlign - 1) / kAlign * kAlign),
      worker_(std::move(worker)),
      token_(token),
      ties_(UcxTies::of(context)),
      inbox_(max_message_, ties_),
      exchange_(context.poller, std::move(socket)),
      held_(context.budget, kUcxWindow * slot_bytes_) {
  worker_->open(token_, &inbox_);
  exchange_.send(encode_card(token_, worker_->address()));
}

UcxReceiver::~UcxReceiver() {
  pipe_memory_.reset();  // before the worker may end it
  worker_->progress();
  worker_->close(token_);
  exchange_.send(encode_report({UcxReport::Kind::kLeft, inbox_.arrived()}));
  (void)exchange_.flush();
  std::vector<UcxOperation> left;
  for (uint64_t number = inbox_.released(); number < inbox_.released() + kUcxWindow; ++number) {
    const UcxArrival& arrival = inbox_.at(number);
    const Fetch& fetch = fetches_[number % kUcxWindow];
    const bool held = arrival.kind != UcxArrival::Kind::kNone && arrival.data != nullptr;
    if (held && !fetch.begun) worker_->drop(arrival.data);
    left.push_back(fetch.operation);
  }
  worker_->keep(std::move(memory_), std::move(left));
}

std::byte* UcxReceiver::slot(uint64_t number) const {
  return memory_->bytes().data() + number % kUcxWindow * slot_bytes_;
}

const Message* UcxReceiver::peek() {
  if (!state_.ok()) return nullptr;
  if (ready_) return &message_;
  if (!has_next()) (void)progress();
  if (!state_.ok() || !has_next()) return nullptr;
  Result<bool> here = is_here();
  if (here.ok() && !*here && progress().ok()) here = is_here();
  if (!here.ok()) state_.fail(here.status());
  if (!state_.ok() || !*here) return nullptr;
  const UcxArrival& next = inbox_.at(inbox_.released());
  const bool fetched = next.kind == UcxArrival::Kind::kOffered;
  message_ = {fetched ? slot(inbox_.released()) : static_cast<const std::byte*>(next.data), next.length, next.digest};
  ready_ = true;
  return &message_;
}

Result<bool> UcxReceiver::is_here() {
  const uint64_t next = inbox_.released();
  if (inbox_.at(next).kind == UcxArrival::Kind::kHere) return true;
  if (looked_at_ <= next) HOCKET_TRY(fetch());
  return worker_->is_done(&fetches_[next % kUcxWindow].operation);
}

Status UcxReceiver::fetch() {
  for (; looked_at_ < inbox_.released() + kUcxWindow; ++looked_at_) {
    const UcxArrival& arrival = inbox_.at(looked_at_);
    const UcxArrival::Kind kind = arrival.kind.load(std::memory_order_acquire);
    if (kind == UcxArrival::Kind::kNone) return {};
    if (kind == UcxArrival::Kind::kHere) continue;
    if (memory_ == nullptr) {
      memory_ = std::make_shared<PageMemory>(kUcxWindow * slot_bytes_);
      pipe_memory_.emplace(memory_->bytes());
    }
    held_.write(looked_at_ % kUcxWindow * slot_bytes_, arrival.length);
    Fetch& fetch = fetches_[looked_at_ % kUcxWindow];
    const auto begun = worker_->fetch(arrival.data, {slot(looked_at_), arrival.length});
    fetch.begun = true;  // also of one that failed: UCX has taken it back
    if (!begun.ok()) return begun.status();
    fetch.operation = *begun;
  }
  return {};
}

void UcxReceiver::release() {
  if (!ready_) return;
  ready_ = false;
  const uint64_t number = inbox_.released();
  const UcxArrival& arrival = inbox_.at(number);
  if (arrival.kind == UcxArrival::Kind::kHere && arrival.data != nullptr) worker_->drop(arrival.data);
  fetches_[number % kUcxWindow] = {};
  if (looked_at_ == number) ++looked_at_;
  inbox_.release();
  tell_released(kTellAt);
}

void UcxReceiver::tell_released(uint64_t least) {
  const uint64_t released = inbox_.released();
  if (released - told_ < least || released - std::min(released, ties_->told()) < least) return;
  told_ = released;
  exchange_.send(encode_report({UcxReport::Kind::kReleased, told_}));
  // What cannot go now goes at the next look; that the sender is gone is noticed where that matters.
  if (lost_.ok()) (void)exchange_.flush();
}

Status UcxReceiver::progress() {
  if (!state_.ok()) return state_.status();
  if (const Status looked = look(); !looked.ok()) state_.fail(looked);
  return state_.status();
}

Status UcxReceiver::look() {
  if (lost_.ok()) lost_ = exchange_.flush();
  worker_->progress();
  HOCKET_TRY(inbox_.status());
  if (has_next()) {
    looks_ = 0;
    return fetch();
  }
  tell_released(kTellIdly);
  return ++looks_ % kListenEvery == 0 || !lost_.ok() || left_ ? listen() : Status();
}

Status UcxReceiver::listen() {
  while (lost_.ok() && !left_) {
    const auto got = exchange_.receive(UcxReport::kBytes);
    if (!got.ok()) lost_ = got.status();
    if (!got.ok() || !*got) break;
    UcxReport report;
    Status taken = decode_report(**got, &report);
    if (taken.ok() && report.kind != UcxReport::Kind::kLeft) taken = Status(Code::kInternal, "a receiver's report");
    if (!taken.ok()) return Status(taken.code(), fmt::format("{} sent {}", exchange_.peer_name(), taken.message()));
    left_ = report;
  }
  return judge();
}

Status UcxReceiver::judge() {
  if ((lost_.ok() && !left_) || has_next()) return {};
  if (lost_at_ == Time()) lost_at_ = system_.clock.now();
  const bool all = !left_ || inbox_.arrived() >= left_->messages;
  if (!all && system_.clock.now() - lost_at_ < kGrace) return {};
  if (left_ && !all) {
    return Status(Code::kRemote, fmt::format("{} left when it had sent {} messages, of which {} arrived",
                                             exchange_.peer_name(), left_->messages, inbox_.arrived()));
  }
  return left_ ? Status(Code::kRemote, fmt::format("{} has left", exchange_.peer_name())) : lost_;
}

void UcxReceiver::set_waiting(bool waiting) {
  if (!waiting || !state_.ok()) return;
  Status status = worker_->arm();
  if (status.ok() && !has_next()) status = listen();
  if (!status.ok()) state_.fail(status);
}

}  // namespace hocket
