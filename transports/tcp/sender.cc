// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/tcp/sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "transports/tcp/wire.h"

namespace hocket {
namespace {

// Before the payload of a slot: room for a header and padding.
constexpr size_t kFront = 2 * kWireLine;
static_assert(kWireHeaderBytes + kWireLine <= kFront);

// From here on the kernel reading the caller's memory beats a copy into the slot (measured on loopback).
constexpr size_t kStableFrom = 8 << 10;

}  // namespace

TcpSender::TcpSender(const PipeContext& context, std::shared_ptr<Socket> socket, std::string name)
    : poller_(context.poller),
      socket_(std::move(socket)),
      name_(std::move(name)),
      max_message_(context.max_message),
      checksum_(context.checksum),
      slot_bytes_(kFront + (max_message_ + kWireLine - 1) / kWireLine * kWireLine),
      slots_(kPipeDepth * slot_bytes_),
      held_(context.budget, slots_.bytes().size()) {
  stable_from = kStableFrom;
}

TcpSender::~TcpSender() { poller_.remove(socket_->handle()); }

bool TcpSender::has_room() {
  if (queued_ - taken_ == kPipeDepth) flush();
  return status_.ok() && queued_ - taken_ < kPipeDepth;
}

std::byte* TcpSender::slot() {
  if (queued_ == taken_ && !has_reservation_) origin_ = queued_;
  return slots_.bytes().data() + (queued_ - origin_) % kPipeDepth * slot_bytes_ + kFront;
}

std::byte* TcpSender::reserve(size_t bytes) {
  if (!has_room()) return nullptr;
  if (bytes > max_message_) {
    fail(Code::kInternal, fmt::format("a message of {} bytes was asked for; the limit is {}", bytes, max_message_));
    return nullptr;
  }
  std::byte* memory = slot();
  reserved_ = bytes;
  has_reservation_ = true;
  return memory;
}

void TcpSender::commit(size_t bytes, Envelope envelope) {
  if (!status_.ok()) return;
  if (!has_reservation_ || bytes > reserved_) {
    return fail(Code::kInternal, fmt::format("{} bytes were committed of {} reserved", bytes, reserved_));
  }
  enqueue({slot(), bytes}, envelope);
}

Ticket TcpSender::send_stable(std::span<const std::byte> bytes, Envelope envelope) {
  if (bytes.size() < stable_from) return Sender::send_stable(bytes, envelope);
  if (!has_room()) return 0;
  if (bytes.size() > max_message_) {
    fail(Code::kInternal, fmt::format("a message of {} bytes was sent; the limit is {}", bytes.size(), max_message_));
    return 0;
  }
  enqueue(bytes, envelope);
  return queued_;
}

std::optional<uint32_t> TcpSender::checksum(std::span<const std::byte> payload) const {
  if (!checksum_) return {};
  return crc32c(payload);
}

// The kernel copies a long payload faster where source and destination lie alike in their lines, as it continues each
// line of the stream where the last send has left it (docs/decisions/0145). So a long one begins as it lies in memory,
// and a short one ends a line, so that other streams of this thread begin one.
uint8_t TcpSender::padding(std::span<const std::byte> payload) const {
  const bool is_short = payload.size() < kStableFrom;
  const uintptr_t begin = is_short ? -payload.size() : reinterpret_cast<uintptr_t>(payload.data());
  return static_cast<uint8_t>((begin - stream_ - kWireHeaderBytes) % kWireLine);
}

void TcpSender::enqueue(std::span<const std::byte> payload, Envelope envelope) {
  std::byte* const memory = slot();
  const uint8_t padded = padding(payload);
  std::byte* const header = memory - padded - kWireHeaderBytes;
  encode_header(
      {static_cast<uint32_t>(payload.size()), padded, envelope, static_cast<uint32_t>(queued_), checksum(payload)},
      header);
  std::memset(header + kWireHeaderBytes, 0, padded);
  const size_t front = kWireHeaderBytes + padded;
  const bool in_slot = payload.data() == memory;
  held_.write(static_cast<size_t>(header - slots_.bytes().data()), in_slot ? front + payload.size() : front);
  queue_[queued_ % kPipeDepth] = {{header, in_slot ? front + payload.size() : front},
                                  in_slot ? std::span<const std::byte>() : payload};
  stream_ += front + payload.size();
  ++queued_;
  reserved_ = 0;
  has_reservation_ = false;
  flush();
}

Status TcpSender::progress() {
  flush();
  return status_;
}

void TcpSender::flush() {
  if (!status_.ok() || taken_ == queued_) return;
  std::array<std::span<const std::byte>, 2 * kPipeDepth> parts;
  size_t count = 0;
  for (uint64_t message = taken_; message < queued_; ++message) {
    const Outgoing& outgoing = queue_[message % kPipeDepth];
    if (!outgoing.header.empty()) parts[count++] = outgoing.header;
    if (!outgoing.stable.empty()) parts[count++] = outgoing.stable;
  }
  // A send that takes less than all has met a full socket: asking again at once would be a call for nothing.
  const Result<size_t> sent = socket_->send({parts.data(), count});
  if (!sent.ok()) return fail(sent.status().code(), sent.status().message());
  take(*sent);
}

void TcpSender::take(size_t bytes) {
  while (taken_ < queued_) {
    Outgoing& outgoing = queue_[taken_ % kPipeDepth];
    for (std::span<const std::byte>* part : {&outgoing.header, &outgoing.stable}) {
      const size_t step = std::min(bytes, part->size());
      *part = part->subspan(step);
      bytes -= step;
    }
    if (!outgoing.header.empty() || !outgoing.stable.empty()) return;
    ++taken_;
  }
}

void TcpSender::fail(Code code, std::string what) {
  if (status_.ok()) status_ = Status(code, fmt::format("{}: {}", name_, what));
}

}  // namespace hocket
