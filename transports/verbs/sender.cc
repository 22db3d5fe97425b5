// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hocket {
namespace {

constexpr size_t kLoanFrame = frame_bytes(sizeof(LentPlace));
static_assert(longest_part(RingMemory::kLong) == kLongestPart && RingMemory::kLong / frame_bytes(kLongestPart) == 7);

}  // namespace

Result<std::unique_ptr<VerbsSender>> VerbsSender::open(const PipeContext& context, const VerbsTable& table,
                                                       VerbsRails& rails, std::shared_ptr<Socket> socket,
                                                       std::string name) {
  std::unique_ptr<VerbsSender> made(new VerbsSender(context, table, rails, std::move(socket), std::move(name)));
  HOCKET_TRY(made->path_.open());
  return made;
}

VerbsSender::VerbsSender(const PipeContext& context, const VerbsTable& table, VerbsRails& rails,
                         std::shared_ptr<Socket> socket, std::string name)
    : max_message_(context.max_message),
      slot_bytes_(frame_bytes(max_message_)),
      mirror_(RingMemory::wanted(context.budget.get()), context.budget),
      path_(context, table, rails, mirror_.bytes(), std::move(socket), name),
      slots_(kPipeDepth * slot_bytes_),
      held_(context.budget, slots_.bytes().size()),
      state_(std::move(name)) {
  stable_from = longest_part(mirror_.bytes().size()) + 1;
  lent_from = kShortestLent;
}

bool VerbsSender::is_next(size_t bytes) const {
  return queued_ == taken_ && may_send() && bytes <= longest_part(path_.ring_bytes());
}

bool VerbsSender::fits(size_t bytes) const {
  return is_next(bytes) && frame_bytes(bytes) <= std::min(to_end(), room());
}

std::byte* VerbsSender::reserve(size_t bytes) {
  if (gone()) state_.fail(Code::kRemote, fmt::format("{} has left", path_.peer_name()));
  if (!state_.may_ask(bytes, max_message_)) return nullptr;
  if (reservation_ != Reservation::kNone && reserved_ == bytes) return reserved_at_;
  reservation_ = Reservation::kNone;
  bool fits_now = fits(bytes);
  if (!fits_now) {
    move();
    if (is_next(bytes) && wraps(frame_bytes(bytes))) skip_to_end();
    fits_now = fits(bytes);
  }
  if (fits_now) {
    reservation_ = Reservation::kMirror;
    reserved_at_ = mirror_at(written_.bytes) + kFrameGrain;
  } else if (has_slot()) {
    reservation_ = Reservation::kSlot;
    reserved_at_ = slot();
  } else {
    return nullptr;
  }
  reserved_ = bytes;
  return reserved_at_;
}

void VerbsSender::commit(size_t bytes, Envelope envelope) {
  if (!state_.may_commit(bytes, reserved_)) return;
  const Reservation where = std::exchange(reservation_, Reservation::kNone);
  reserved_ = 0;
  if (where == Reservation::kSlot) {
    held_.write(static_cast<size_t>(reserved_at_ - slots_.bytes().data()), bytes);
    return enqueue({{reserved_at_, bytes}, envelope.digest()});
  }
  send_frame(bytes, 0, envelope.digest());
}

Ticket VerbsSender::send_stable(std::span<const std::byte> bytes, Envelope envelope) {
  if (bytes.size() < stable_from) return Sender::send_stable(bytes, envelope);
  return send_from_place(bytes, envelope, false);
}

Ticket VerbsSender::lend(std::span<const std::byte> bytes, Envelope envelope) {
  if (bytes.size() < lent_from) return Sender::send_stable(bytes, envelope);
  return send_from_place(bytes, envelope, true);
}

bool VerbsSender::can_lend(std::span<const std::byte> bytes) {
  return bytes.size() >= lent_from && state_.ok() && !gone() && path_.key_for(bytes) != 0;
}

Ticket VerbsSender::send_from_place(std::span<const std::byte> bytes, Envelope envelope, bool lent) {
  if (!state_.may_ask(bytes.size(), max_message_) || !has_slot()) return 0;
  reservation_ = Reservation::kNone;
  const bool beyond_host = lent && LastingMemory::of_process().beyond_host(bytes) != nullptr;
  enqueue({bytes, envelope.digest(), lent, beyond_host});
  return last_stable_ = queued_;
}

bool VerbsSender::done(Ticket ticket) {
  if (ticket == kCopied || is_free(ticket)) return true;
  move();
  return is_free(ticket);
}

bool VerbsSender::is_free(Ticket ticket) const {
  if (!state_.ok()) return true;
  if (ticket > taken_) return false;
  for (uint64_t number = repaid_; number < lent_; ++number) {
    if (loans_[number % kPipeDepth].ticket == ticket) return false;
  }
  return true;
}

void VerbsSender::withdraw() {
  if (taken_ >= last_stable_ && repaid_ == lent_) return;
  path_.close();
  state_.fail(Code::kInternal, "the memory of a message was taken back before it was sent");
}

bool VerbsSender::has_slot() {
  if (queued_ - taken_ == kPipeDepth) move();
  return state_.ok() && queued_ - taken_ < kPipeDepth;
}

void VerbsSender::enqueue(const Outgoing& message) {
  queue_[queued_ % kPipeDepth] = message;
  ++queued_;
  push();
}

Status VerbsSender::progress() {
  move();
  return state_.status();
}

void VerbsSender::move() {
  if (!state_.ok() || gone()) return;
  follow(path_.look());
  push();
}

void VerbsSender::follow(Status moved) {
  end_loans();
  if (moved.ok() && gone()) moved = check_farewell();
  const auto resumption = path_.take_resumption();
  if (moved.ok() && resumption) moved = send_again(*resumption);
  const auto request = path_.take_request();
  if (moved.ok() && request) moved = give(*request);
  if (!moved.ok()) break_off(moved);
}

// What is lent is the caller's again as soon as the pipe has failed: no device reads it any more.
void VerbsSender::break_off(const Status& why) {
  if (repaid_ != lent_) path_.close();
  state_.fail(why);
}

void VerbsSender::push() {
  while (state_.ok() && !gone() && taken_ < queued_ && may_send()) {
    Outgoing& next = queue_[taken_ % kPipeDepth];
    // A place is told only where the receiver can read it.
    next.lent = next.lent && path_.key_for(next.left) != 0;
    const size_t part = std::min(next.left.size(), longest_part(path_.ring_bytes()));
    const size_t wanted = next.lent ? kLoanFrame : frame_bytes(part);
    // What lies in one piece need not be put together by the receiver, and a place has to.
    if ((next.lent || part == next.left.size()) && !next.begun && wraps(wanted)) {
      skip_to_end();
      continue;
    }
    const size_t frame = next.lent ? wanted : std::min(wanted, to_end());
    if (frame > std::min(to_end(), room())) return;
    if (!next.lent) {
      if (const Status pushed = push_part(next, frame); !pushed.ok()) break_off(pushed);
    } else if (lent_ - repaid_ < kPipeDepth) {
      push_loan(next);
    } else {
      return;
    }
  }
}

Status VerbsSender::push_part(Outgoing& next, size_t frame) {
  const size_t part = std::min(next.left.size(), frame - kFrameGrain);
  HOCKET_TRY(copy_to_host(mirror_at(written_.bytes) + kFrameGrain, next.left.first(part), next.beyond_host));
  next.left = next.left.subspan(part);
  next.begun = true;
  const bool last = next.left.empty();
  send_frame(part, next.left.size(), next.digest);
  if (last) ++taken_;
  return {};
}

void VerbsSender::push_loan(Outgoing& next) {
  loan(lent_++) = {next.left, written_.bytes, ++taken_, next.beyond_host};
  const LentPlace place{reinterpret_cast<uint64_t>(next.left.data()), static_cast<uint32_t>(next.left.size()), 0, 0, 0};
  std::memcpy(mirror_at(written_.bytes) + kFrameGrain, &place, sizeof(place));
  send_frame(sizeof(place), kLent, next.digest);
}

void VerbsSender::refresh_place(uint64_t position) {
  LentPlace place = place_at(position);
  place.key = path_.key_for({reinterpret_cast<const std::byte*>(place.address), place.bytes});
  place.path = place.key != 0 ? path_.number() : 0;
  std::memcpy(mirror_at(position) + kFrameGrain, &place, sizeof(place));
}

LentPlace VerbsSender::place_at(uint64_t position) const {
  LentPlace place;
  std::memcpy(&place, mirror_at(position) + kFrameGrain, sizeof(place));
  return place;
}

void VerbsSender::end_loans() {
  if (all_released()) repaid_ = lent_;
  while (repaid_ < lent_ && loan(repaid_).position < path_.returned().bytes) ++repaid_;
}

Status VerbsSender::give(uint64_t position) {
  for (uint64_t number = repaid_; number < lent_; ++number) {
    Loan& asked = loan(number);
    if (asked.position != position) continue;
    if (std::exchange(asked.given, true)) {
      return Status(Code::kInternal,
                    fmt::format("{} asks once more for what was lent at {}", path_.peer_name(), position));
    }
    if (place_at(position).path == path_.number()) path_.stop_lending();
    return path_.give(position, asked.bytes, asked.beyond_host);
  }
  return Status(Code::kInternal,
                fmt::format("{} asks for what was lent at {}, where nothing was", path_.peer_name(), position));
}

void VerbsSender::send_frame(size_t length, size_t rest, uint32_t digest) {
  const FrameHeader header{static_cast<uint32_t>(length), static_cast<uint32_t>(rest), digest, number_++};
  std::memcpy(mirror_at(written_.bytes) + kHeaderOffset, &header, sizeof(header));
  written_ += {post_frame(written_.bytes), 1};
}

size_t VerbsSender::post_frame(uint64_t position) {
  const std::byte* at = mirror_at(position) + kHeaderOffset;
  FrameHeader header;
  std::memcpy(&header, at, sizeof(header));
  if (header.rest == kLent) refresh_place(position);
  const size_t bytes = frame_bytes(header, to_end(position));
  path_.send(position, {at, sizeof(header) + header.length}, {bytes, 1});
  return bytes;
}

Status VerbsSender::send_again(uint64_t from) {
  uint64_t position = path_.returned().bytes;
  while (position < from && position < written_.bytes) {
    FrameHeader header;
    std::memcpy(&header, mirror_at(position) + kHeaderOffset, sizeof(header));
    position += frame_bytes(header, to_end(position));
  }
  if (position != from) {
    return Status(Code::kInternal, fmt::format("{} has {} bytes, which end within a frame", path_.peer_name(), from));
  }
  while (position < written_.bytes) position += post_frame(position);
  return {};
}

Status VerbsSender::check_farewell() {
  if (*path_.farewell() == written_.bytes && queued_ == taken_ && repaid_ == lent_) return {};
  return Status(Code::kRemote, fmt::format("{} left when it had received {} of {} bytes", path_.peer_name(),
                                           *path_.farewell(), written_.bytes));
}

bool VerbsSender::flushed() {
  return state_.ok() && (gone() || (queued_ == taken_ && path_.has_delivered(written_.bytes)));
}

void VerbsSender::set_waiting(bool waiting) {
  if (!waiting || !state_.ok() || gone()) return;
  follow(path_.arm());
}

}  // namespace hocket
