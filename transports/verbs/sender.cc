// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hocket {
namespace {

// Frames under way, and as many that are not known to be acknowledged.
constexpr uint32_t kSends = 2 * kMaxFrames;
// A receiver gives back by the quarter: four times by frames, four times by bytes, and some to spare.
constexpr uint32_t kReceives = 16;
// Asking the socket is a call of the system: it is done once in so many looks.
constexpr uint32_t kListenEvery = 256;

}  // namespace

Result<std::unique_ptr<VerbsSender>> VerbsSender::open(const PipeContext& context, const VerbsTable& table,
                                                       const VerbsPort& port, std::unique_ptr<Socket> socket,
                                                       std::string name) {
  std::unique_ptr<VerbsSender> made(new VerbsSender(context, std::move(socket), std::move(name)));
  auto pair = QueuePair::open(table, port, made->mirror_.bytes(), {kSends, kReceives, false});
  if (!pair.ok()) return pair.status();
  made->pair_ = std::move(*pair);
  HOCKET_TRY(context.poller.add(made->pair_->handle()));
  const auto chosen = choose_gid(port.gids, {});
  if (!chosen) return Status(Code::kSystem, fmt::format("{} has no GID", port.name));
  made->gid_ = chosen->gid;
  VerbsCard card = made->pair_->card();
  card.gid = made->gid_;
  card.ring.bytes = static_cast<uint32_t>(made->mirror_.bytes().size());
  made->fabric_ = card.fabric;
  made->exchange_.send(encode_card(CardOf::kSender, card));
  HOCKET_TRY(made->exchange_.flush());
  return made;
}

VerbsSender::VerbsSender(const PipeContext& context, std::unique_ptr<Socket> socket, std::string name)
    : poller_(context.poller),
      name_(std::move(name)),
      max_message_(context.max_message),
      slot_bytes_(frame_bytes(max_message_)),
      mirror_(RingMemory::wanted()),
      exchange_(context.poller, std::move(socket)),
      slots_(kPipeDepth * slot_bytes_) {
  stable_from = longest_part(mirror_.bytes().size()) + 1;
}

VerbsSender::~VerbsSender() {
  if (pair_ != nullptr) poller_.remove(pair_->handle());
}

Status VerbsSender::meet() {
  HOCKET_TRY(exchange_.flush());
  const auto got = exchange_.receive(VerbsCard::kBytes);
  if (!got.ok()) return got.status();
  if (!*got) return {};
  VerbsCard card;
  if (const Status status = decode_card(**got, CardOf::kReceiver, &card); !status.ok()) {
    return Status(status.code(), fmt::format("{} sent {}", exchange_.peer_name(), status.message()));
  }
  if (card.fabric != fabric_ || card.ring.bytes > mirror_.bytes().size()) {
    return Status(Code::kInternal, fmt::format("{} answered with a ring of {} bytes on link layer {}; it was asked for "
                                               "at most {} on {}",
                                               exchange_.peer_name(), card.ring.bytes, static_cast<int>(card.fabric),
                                               mirror_.bytes().size(), static_cast<int>(fabric_)));
  }
  HOCKET_TRY(pair_->connect(card, gid_));
  ring_ = card.ring;
  return {};
}

bool VerbsSender::fits(size_t bytes) const {
  return is_open() && queued_ == taken_ && bytes <= longest_part(ring_.bytes) && frames_ < kMaxFrames &&
         pair_->has_room() && frame_bytes(bytes) <= std::min(to_end(), room());
}

std::byte* VerbsSender::reserve(size_t bytes) {
  if (gone_) fail(Code::kRemote, fmt::format("{} has left", exchange_.peer_name()));
  if (!status_.ok()) return nullptr;
  if (bytes > max_message_) {
    fail(Code::kInternal, fmt::format("a message of {} bytes was asked for; the limit is {}", bytes, max_message_));
    return nullptr;
  }
  if (reservation_ != Reservation::kNone && reserved_ == bytes) return reserved_at_;
  reservation_ = Reservation::kNone;
  if (!fits(bytes)) move();
  if (fits(bytes)) {
    reservation_ = Reservation::kMirror;
    reserved_at_ = mirror_at(written_) + kFrameGrain;
  } else if (has_slot()) {
    reservation_ = Reservation::kSlot;
    reserved_at_ = slot();
  } else {
    return nullptr;
  }
  reserved_ = bytes;
  return reserved_at_;
}

void VerbsSender::commit(size_t bytes, const Envelope& envelope) {
  if (!status_.ok()) return;
  if (reservation_ == Reservation::kNone || bytes > reserved_) {
    return fail(Code::kInternal, fmt::format("{} bytes were committed of {} reserved", bytes, reserved_));
  }
  const Reservation where = std::exchange(reservation_, Reservation::kNone);
  reserved_ = 0;
  if (where == Reservation::kSlot) return enqueue({reserved_at_, bytes}, envelope);
  if (const Status sent = send_frame(bytes, 0, envelope.digest()); !sent.ok()) fail(sent);
}

Ticket VerbsSender::send_stable(std::span<const std::byte> bytes, const Envelope& envelope) {
  if (bytes.size() < stable_from) return Sender::send_stable(bytes, envelope);
  if (!status_.ok() || !has_slot()) return 0;
  if (bytes.size() > max_message_) {
    fail(Code::kInternal, fmt::format("a message of {} bytes was sent; the limit is {}", bytes.size(), max_message_));
    return 0;
  }
  reservation_ = Reservation::kNone;
  enqueue(bytes, envelope);
  return last_stable_ = queued_;
}

void VerbsSender::withdraw() {
  if (taken_ < last_stable_) fail(Code::kInternal, "the memory of a message was taken back before it was sent");
}

bool VerbsSender::has_slot() {
  if (queued_ - taken_ == kPipeDepth) move();
  return status_.ok() && queued_ - taken_ < kPipeDepth;
}

void VerbsSender::enqueue(std::span<const std::byte> bytes, const Envelope& envelope) {
  queue_[queued_ % kPipeDepth] = {bytes, envelope.digest()};
  ++queued_;
  push();
}

Status VerbsSender::progress() {
  move();
  return status_;
}

void VerbsSender::move() {
  if (!status_.ok() || gone_) return;
  const Status moved = is_open() ? look() : meet();
  if (!moved.ok()) return fail(moved);
  push();
}

void VerbsSender::push() {
  while (status_.ok() && !gone_ && is_open() && taken_ < queued_ && frames_ < kMaxFrames && pair_->has_room()) {
    Outgoing& next = queue_[taken_ % kPipeDepth];
    const size_t wanted = frame_bytes(std::min(next.left.size(), longest_part(ring_.bytes)));
    const size_t frame = std::min(wanted, to_end());
    if (frame > room()) return;
    const size_t part = std::min(next.left.size(), frame - kFrameGrain);
    if (part > 0) std::memcpy(mirror_at(written_) + kFrameGrain, next.left.data(), part);
    next.left = next.left.subspan(part);
    const bool last = next.left.empty();
    if (const Status sent = send_frame(part, next.left.size(), next.digest); !sent.ok()) return fail(sent);
    if (last) ++taken_;
  }
}

Status VerbsSender::send_frame(size_t length, size_t rest, uint32_t digest) {
  const FrameHeader header{static_cast<uint32_t>(length), static_cast<uint32_t>(rest), digest, number_++};
  std::byte* at = mirror_at(written_) + kHeaderOffset;
  std::memcpy(at, &header, sizeof(header));
  const uint64_t address = ring_.address + written_ % ring_.bytes + kHeaderOffset;
  const size_t bytes = frame_bytes(length);
  written_ += bytes;
  ++frames_;
  return pair_->write({at, sizeof(header) + length}, address, ring_.key, {bytes, 1});
}

Status VerbsSender::look() {
  RingAmount told;
  const Status polled = pair_->poll(&told);
  if (told.frames > frames_ || told.bytes > written_ - given_back_) {
    return Status(Code::kInternal, fmt::format("the receiver gives back {} frames of {} bytes; {} of {} are under way",
                                               told.frames, told.bytes, frames_, written_ - given_back_));
  }
  given_back_ += told.bytes;
  frames_ -= told.frames;
  looks_ = told.frames > 0 ? 0 : looks_ + 1;
  if (polled.ok() && looks_ % kListenEvery != 0) return {};
  // A receiver that has left breaks the connection, too.
  HOCKET_TRY(listen());
  return gone_ ? Status() : polled;
}

Status VerbsSender::listen() {
  const auto got = exchange_.receive(Farewell::kBytes);
  if (!got.ok()) return got.status();
  if (!*got) return {};
  Farewell farewell;
  if (const Status status = decode_farewell(**got, &farewell); !status.ok()) {
    return Status(status.code(), fmt::format("{} sent {}", exchange_.peer_name(), status.message()));
  }
  if (farewell.arrived != written_ || queued_ != taken_) {
    return Status(Code::kRemote, fmt::format("{} left when it had received {} of {} bytes", exchange_.peer_name(),
                                             farewell.arrived, written_));
  }
  gone_ = true;
  return {};
}

bool VerbsSender::flushed() { return !status_.ok() || gone_ || (queued_ == taken_ && (!is_open() || pair_->idle())); }

void VerbsSender::set_waiting(bool waiting) {
  if (!waiting || !status_.ok() || gone_ || !is_open()) return;
  Status status = pair_->arm();
  if (status.ok()) status = listen();
  if (!status.ok()) fail(status);
}

void VerbsSender::fail(Code code, std::string what) {
  if (status_.ok()) status_ = Status(code, fmt::format("{}: {}", name_, what));
}

}  // namespace hocket
