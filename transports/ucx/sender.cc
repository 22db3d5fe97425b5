// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/ucx/sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hocket {
namespace {

// A message's header lies at the end of its slot's first line.
constexpr size_t kLine = 64;
// Asking the socket is a call of the system: when nothing depends on it, it is done once in so many looks.
constexpr uint32_t kHearEvery = 256;
// What a receiver says when it leaves comes another way than the news that the connection is gone.
constexpr auto kGrace = std::chrono::seconds(1);

// The smallest buffer that a system has for a connection.
constexpr size_t kAlwaysTaken = 4096;

size_t in_lines(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

UcxSender::UcxSender(const PipeContext& context, std::shared_ptr<UcxWorker> worker, std::shared_ptr<Socket> socket,
                     std::string name)
    : system_(context.system),
      state_(std::move(name)),
      max_message_(context.max_message),
      slot_bytes_(kLine + in_lines(max_message_)),
      worker_(std::move(worker)),
      ties_(UcxTies::of(context)),
      exchange_(context.poller, std::move(socket)),
      memory_(std::make_shared<PageMemory>(kUcxWindow * slot_bytes_)),
      held_(context.budget, memory_->bytes().size()) {}

UcxSender::~UcxSender() {
  pipe_memory_.reset();  // before the worker may end it
  exchange_.send(encode_report({UcxReport::Kind::kLeft, sent_}));
  (void)exchange_.flush();
  std::vector<UcxOperation> left = {marker_};
  for (const Slot& slot : slots_) left.push_back(slot.operation);
  worker_->keep(std::move(memory_), std::move(left));
}

size_t UcxSender::free_slot() const {
  const auto found =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.use == Use::kFree; });
  return static_cast<size_t>(found - slots_.begin());
}

std::byte* UcxSender::reserve(size_t bytes) {
  if (gone_) state_.fail(Code::kRemote, fmt::format("{} has left", exchange_.peer_name()));
  if (!state_.may_ask(bytes, max_message_)) return nullptr;
  if (reserved_ == kUcxWindow) {
    if (!has_room() || free_slot() == kUcxWindow) (void)progress();
    if (!state_.ok() || !has_room() || free_slot() == kUcxWindow) return nullptr;
    reserved_ = free_slot();
    slots_[reserved_].use = Use::kTaken;
  }
  slots_[reserved_].bytes = bytes;
  return line(reserved_) + kLine;
}

void UcxSender::commit(size_t bytes, Envelope envelope) {
  if (!state_.may_commit(bytes, reserved_ == kUcxWindow ? 0 : slots_[reserved_].bytes)) return;
  const size_t slot = std::exchange(reserved_, kUcxWindow);
  const UcxHeader header{0, sent_, envelope.digest(), 0};
  std::memcpy(line(slot) + kLine - sizeof(header), &header, sizeof(header));
  slots_[slot].bytes = bytes;
  held_.write(static_cast<size_t>(line(slot) - memory_->bytes().data()), kLine + bytes);
  slot_of_[sent_ % kUcxWindow] = static_cast<uint8_t>(slot);
  bytes_of_[sent_++ % kUcxWindow] = kLine + bytes;
  if (link_ == nullptr || !broken_.ok()) return;
  if (const Status moved = move(); !moved.ok()) state_.fail(moved);
}

Status UcxSender::post(size_t slot) {
  auto* header = reinterpret_cast<UcxHeader*>(line(slot) + kLine - sizeof(UcxHeader));
  header->to = card_.token;
  header->released = ties_->tell();
  const auto sent = worker_->send(*link_, *header, {line(slot) + kLine, slots_[slot].bytes});
  if (!sent.ok()) return sent.status();
  slots_[slot].operation = *sent;
  slots_[slot].use = sent->has_ended() ? Use::kFree : Use::kUnderWay;
  if (!sent->has_ended()) ++under_way_;
  return {};
}

Status UcxSender::progress() {
  if (!state_.ok() || gone_) return state_.status();
  if (link_ != nullptr) worker_->progress();
  Status moved = link_ == nullptr ? meet() : Status();
  if (moved.ok() && link_ != nullptr) moved = move();
  if (moved.ok()) moved = hear_along();
  if (moved.ok() && (!has_room() || !broken_.ok() || ++looks_ % kHearEvery == 0)) moved = hear();
  if (!moved.ok()) state_.fail(moved);
  return state_.status();
}

Status UcxSender::meet() {
  if (card_.address_bytes == 0) {
    const auto got = exchange_.receive(UcxCard::kBytes);
    if (!got.ok()) return got.status();
    if (!*got) return {};
    if (const Status read = decode_card(**got, &card_); !read.ok()) {
      card_ = {};
      return Status(read.code(), fmt::format("{} sent {}", exchange_.peer_name(), read.message()));
    }
  }
  const auto address = exchange_.receive(card_.address_bytes);
  if (!address.ok()) return address.status();
  if (!*address) return {};
  if (const Status whole = check_address(card_, **address); !whole.ok()) {
    return Status(whole.code(), fmt::format("{} sent {}", exchange_.peer_name(), whole.message()));
  }
  auto link = worker_->link_to(**address);
  if (!link.ok()) return Status(Code::kRemote, fmt::format("{}: {}", exchange_.peer_name(), link.status().message()));
  link_ = std::move(*link);
  return {};
}

Status UcxSender::move() {
  Status moved = broken_;
  if (moved.ok()) moved = reap();
  for (; moved.ok() && posted_ < sent_; ++posted_) moved = post(slot_of_[posted_ % kUcxWindow]);
  if (moved.ok()) moved = link_->status();
  return moved.ok() ? moved : on_broken(moved);
}

Status UcxSender::reap() {
  for (size_t i = 0; i < kUcxWindow && under_way_ > 0; ++i) {
    Slot& slot = slots_[i];
    if (slot.use != Use::kUnderWay) continue;
    const auto done = worker_->is_done(&slot.operation);
    if (!done.ok()) return done.status();
    if (!*done) continue;
    slot.use = Use::kFree;
    --under_way_;
  }
  return {};
}

Status UcxSender::on_broken(const Status& status) {
  if (broken_.ok()) {
    broken_ = status;
    broken_at_ = system_.clock.now();
  }
  HOCKET_TRY(hear());
  return gone_ || system_.clock.now() - broken_at_ < kGrace ? Status() : broken_;
}

Status UcxSender::hear_along() {
  const uint64_t heard = ties_->heard();
  return heard > released_ ? take({UcxReport::Kind::kReleased, heard}) : Status();
}

Status UcxSender::hear() {
  while (link_ != nullptr && !gone_) {
    const auto got = exchange_.receive(UcxReport::kBytes);
    if (!got.ok()) return got.status();
    if (!*got) return {};
    UcxReport report;
    Status taken = decode_report(**got, &report);
    if (!taken.ok()) taken = Status(taken.code(), fmt::format("{} sent {}", exchange_.peer_name(), taken.message()));
    if (taken.ok()) taken = take(report);
    if (!taken.ok()) return taken;
  }
  return {};
}

Status UcxSender::take(const UcxReport& report) {
  // The socket may be behind what came with messages.
  if (report.kind == UcxReport::Kind::kReleased && report.messages < released_) return {};
  if (report.messages < released_ || report.messages > sent_) {
    return Status(Code::kInternal, fmt::format("{} reports {} messages; {} were sent, and it had released {}",
                                               exchange_.peer_name(), report.messages, sent_, released_));
  }
  released_ = report.messages;
  ties_->know(released_);
  if (report.kind == UcxReport::Kind::kReleased) return {};
  gone_ = report.messages == sent_;
  if (gone_) return {};
  return Status(Code::kRemote, fmt::format("{} left when it had received {} of {} messages", exchange_.peer_name(),
                                           report.messages, sent_));
}

bool UcxSender::flushed() {
  if (state_.ok() && (gone_ || flushed_ == sent_)) return true;
  if (!state_.ok() || link_ == nullptr || !broken_.ok()) return false;
  Status status = reap();
  if (status.ok() && posted_ == sent_ && under_way_ == 0) status = flush();
  if (!status.ok()) status = on_broken(status);
  if (!status.ok()) state_.fail(status);
  return state_.ok() && (gone_ || flushed_ == sent_);
}

// UCX's own flush would wait for the peer, which may be computing. It takes messages over that it could not give to the
// system as a whole, and then takes no other: a marker tells.
Status UcxSender::flush() {
  if (flushing_ == flushed_ && bytes_ahead() > kAlwaysTaken) {
    const auto sent = worker_->send_marker(*link_);
    if (!sent.ok()) return sent.status();
    marker_ = *sent;
  }
  if (flushing_ == flushed_) flushing_ = sent_;
  const auto done = worker_->is_done(&marker_);
  if (!done.ok()) return done.status();
  if (*done) flushed_ = flushing_;
  return {};
}

size_t UcxSender::bytes_ahead() const {
  size_t bytes = 0;
  for (uint64_t number = released_; number < sent_; ++number) bytes += bytes_of_[number % kUcxWindow];
  return bytes;
}

void UcxSender::set_waiting(bool waiting) {
  if (!waiting || !state_.ok() || gone_ || link_ == nullptr) return;
  Status status = worker_->arm();
  if (status.ok()) status = hear();
  if (!status.ok()) state_.fail(status);
}

}  // namespace hocket
