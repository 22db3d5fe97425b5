// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/receiver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hocket {
namespace {

constexpr uint32_t kSends = 16;
constexpr uint32_t kGiveBackFrames = kMaxFrames / 4;
// Asking the socket is a call of the system: it is done once in so many looks.
constexpr uint32_t kListenEvery = 256;

}  // namespace

VerbsReceiver::VerbsReceiver(const PipeContext& context, const VerbsTable& table, std::span<const VerbsPort> ports,
                             std::unique_ptr<Socket> socket, std::string name)
    : poller_(context.poller),
      table_(table),
      ports_(ports),
      name_(std::move(name)),
      max_message_(context.max_message),
      exchange_(context.poller, std::move(socket)) {}

VerbsReceiver::~VerbsReceiver() {
  if (pair_ == nullptr) return;
  // Before the connection ends, whose last acknowledgement may be lost with it.
  (void)look();
  exchange_.send(encode_farewell({arrived_}));
  (void)exchange_.flush();
  poller_.remove(pair_->handle());
}

Status VerbsReceiver::meet() {
  const auto got = exchange_.receive(VerbsCard::kBytes);
  if (!got.ok()) return got.status();
  if (!*got) return {};
  VerbsCard card;
  if (const Status status = decode_card(**got, CardOf::kSender, &card); !status.ok()) {
    return Status(status.code(), fmt::format("{} sent {}", exchange_.peer_name(), status.message()));
  }
  return answer(card);
}

const VerbsPort* VerbsReceiver::port_for(const VerbsCard& theirs, VerbsGid* gid) const {
  for (const VerbsPort& port : ports_) {
    const auto chosen = port.fabric == theirs.fabric ? choose_gid(port.gids, theirs.gid) : std::nullopt;
    if (!chosen) continue;
    *gid = chosen->gid;
    return &port;
  }
  return nullptr;
}

Status VerbsReceiver::answer(const VerbsCard& theirs) {
  VerbsGid gid;
  const VerbsPort* port = port_for(theirs, &gid);
  if (port == nullptr) {
    return Status(Code::kSystem, fmt::format("none of our {} ports has a GID that fits {} of {}", ports_.size(),
                                             theirs.gid.text(), exchange_.peer_name()));
  }
  ring_.emplace(std::min<size_t>(RingMemory::wanted(), theirs.ring.bytes));
  auto pair = QueuePair::open(table_, *port, ring_->bytes(), {kSends, kMaxFrames, true});
  if (!pair.ok()) return pair.status();
  HOCKET_TRY((*pair)->connect(theirs, gid));
  HOCKET_TRY(poller_.add((*pair)->handle()));
  pair_ = std::move(*pair);
  VerbsCard ours = pair_->card();
  ours.gid = gid;
  ours.ring = {reinterpret_cast<uint64_t>(ring_->bytes().data()), pair_->key(),
               static_cast<uint32_t>(ring_->bytes().size())};
  exchange_.send(encode_card(CardOf::kReceiver, ours));
  into_from = longest_part(ours.ring.bytes) + 1;
  return {};
}

const Message* VerbsReceiver::peek() {
  if (!ready_ && assembling_ && target_ != buffer_.get()) {
    fail(Code::kInternal, "peek in the middle of receive_into");
  }
  return next({});
}

const Message* VerbsReceiver::receive_into(std::span<std::byte> into) { return next(into); }

const Message* VerbsReceiver::next(std::span<std::byte> into) {
  if (!status_.ok()) return nullptr;
  if (ready_) return &message_;
  if (read_ == arrived_) (void)progress();
  while (status_.ok() && !ready_ && read_ < arrived_) {
    FrameHeader header;
    if (const Status status = read_header(&header); !status.ok()) {
      fail(status);
    } else {
      place(header, into);
    }
  }
  return ready_ ? &message_ : nullptr;
}

Status VerbsReceiver::progress() {
  if (!status_.ok()) return status_;
  Status moved = pair_ == nullptr ? meet() : Status();
  if (moved.ok() && pair_ != nullptr) moved = look();
  if (!moved.ok()) fail(moved);
  return status_;
}

Status VerbsReceiver::look() {
  HOCKET_TRY(exchange_.flush());
  const uint64_t before = arrived_;
  HOCKET_TRY(take_told());
  pay();
  looks_ = arrived_ > before ? 0 : looks_ + 1;
  if (read_ < arrived_) return {};
  if (!broken_.ok() || looks_ % kListenEvery == 0) HOCKET_TRY(listen());
  return read_ < arrived_ ? Status() : broken_;
}

Status VerbsReceiver::take_told() {
  RingAmount told;
  if (broken_.ok()) broken_ = pair_->poll(&told);
  arrived_ += told.bytes;
  frames_ += told.frames;
  const size_t under_way = arrived_ - read_ + owed_.bytes;
  if (under_way > ring_->bytes().size() || frames_ > kMaxFrames) {
    return Status(Code::kInternal, fmt::format("the sender claims {} frames of {} bytes in a ring of {} and {} bytes",
                                               frames_, under_way, kMaxFrames, ring_->bytes().size()));
  }
  return {};
}

Status VerbsReceiver::listen() {
  const auto got = exchange_.receive(1);
  if (got.ok() && *got) return Status(Code::kInternal, fmt::format("{} sent more than a card", exchange_.peer_name()));
  if (got.ok()) return {};
  // What was acknowledged before the socket was closed is here by now.
  HOCKET_TRY(take_told());
  return read_ < arrived_ ? Status() : got.status();
}

Status VerbsReceiver::read_header(FrameHeader* header) const {
  const size_t size = ring_->bytes().size();
  const size_t at = read_ % size;
  // Copied: the sender may change it between check and use.
  std::memcpy(header, ring_->bytes().data() + at + kHeaderOffset, sizeof(*header));
  const size_t whole = assembling_ ? total_ - placed_ : max_message_;
  if (header->number != number_) {
    return Status(Code::kInternal, fmt::format("frame {} where {} was expected", header->number, number_));
  }
  if (header->length > whole || header->rest > whole - header->length ||
      (assembling_ && header->length + header->rest != whole)) {
    return Status(Code::kInternal, fmt::format("frame {} claims {} bytes and {} that follow; the limit is {}",
                                               header->number, header->length, header->rest, whole));
  }
  const size_t frame = frame_bytes(header->length);
  if (frame > arrived_ - read_ || frame > size - at) {
    return Status(Code::kInternal, fmt::format("frame {} of {} bytes at {} of a ring of {}; {} bytes have arrived",
                                               header->number, frame, at, size, arrived_ - read_));
  }
  return {};
}

void VerbsReceiver::place(const FrameHeader& header, std::span<std::byte> into) {
  const std::byte* data = ring_->bytes().data() + read_ % ring_->bytes().size() + kFrameGrain;
  ++number_;
  if (!assembling_ && header.rest == 0) {
    message_ = {data, header.length, header.digest};
    held_ = frame_bytes(header.length);
    ready_ = true;
    return;
  }
  if (!assembling_) {
    assembling_ = true;
    total_ = size_t{header.length} + header.rest;
    placed_ = 0;
    if (buffer_ == nullptr) buffer_ = std::make_unique_for_overwrite<std::byte[]>(max_message_);
    target_ = into.size() == total_ ? into.data() : buffer_.get();
  }
  if (header.length > 0) std::memcpy(target_ + placed_, data, header.length);
  placed_ += header.length;
  give_back(frame_bytes(header.length));
  if (header.rest > 0) return;
  assembling_ = false;
  message_ = {target_, total_, header.digest};
  held_ = 0;
  ready_ = true;
}

void VerbsReceiver::release() {
  if (!ready_) return;
  ready_ = false;
  if (held_ > 0) give_back(held_);
}

void VerbsReceiver::give_back(size_t bytes) {
  read_ += bytes;
  owed_.bytes += bytes;
  ++owed_.frames;
  pay();
}

void VerbsReceiver::pay() {
  const bool much = owed_.bytes >= ring_->bytes().size() / 4 || owed_.frames >= kGiveBackFrames;
  if (!much || !broken_.ok() || !pair_->has_room()) return;
  broken_ = pair_->notify(owed_);
  frames_ -= owed_.frames;
  owed_ = {};
}

void VerbsReceiver::set_waiting(bool waiting) {
  if (!waiting || !status_.ok() || pair_ == nullptr || !broken_.ok()) return;
  Status status = pair_->arm();
  if (status.ok() && read_ == arrived_) status = listen();
  if (!status.ok()) fail(status);
}

void VerbsReceiver::fail(Code code, std::string what) {
  if (status_.ok()) status_ = Status(code, fmt::format("{}: {}", name_, what));
}

}  // namespace hocket
