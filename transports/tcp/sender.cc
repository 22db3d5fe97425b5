// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/tcp/sender.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/crc32c.h"
#include "transports/tcp/wire.h"

namespace hocket {
namespace {

constexpr size_t kAlign = 64;

// From here on the kernel reading the caller's memory beats a copy into the slot (measured on loopback).
constexpr size_t kStableFrom = 8 << 10;

}  // namespace

TcpSender::TcpSender(const PipeContext& context, std::shared_ptr<Socket> socket, std::string name)
    : poller_(context.poller),
      socket_(std::move(socket)),
      name_(std::move(name)),
      max_message_(context.max_message),
      checksum_(context.checksum),
      slot_bytes_(kAlign + (max_message_ + kAlign - 1) / kAlign * kAlign),
      slots_(kPipeDepth * slot_bytes_) {
  stable_from = kStableFrom;
}

TcpSender::~TcpSender() { poller_.remove(socket_->handle()); }

bool TcpSender::has_room() {
  if (queued_ - taken_ == kPipeDepth) flush();
  return status_.ok() && queued_ - taken_ < kPipeDepth;
}

std::byte* TcpSender::slot() {
  if (queued_ == taken_ && !has_reservation_) origin_ = queued_;
  return slots_.bytes().data() + (queued_ - origin_) % kPipeDepth * slot_bytes_ + kAlign - kWireHeaderBytes;
}

std::byte* TcpSender::reserve(size_t bytes) {
  if (!has_room()) return nullptr;
  if (bytes > max_message_) {
    fail(Code::kInternal, fmt::format("a message of {} bytes was asked for; the limit is {}", bytes, max_message_));
    return nullptr;
  }
  std::byte* memory = slot() + kWireHeaderBytes;
  reserved_ = bytes;
  has_reservation_ = true;
  return memory;
}

void TcpSender::commit(size_t bytes, Envelope envelope) {
  if (!status_.ok()) return;
  if (!has_reservation_ || bytes > reserved_) {
    return fail(Code::kInternal, fmt::format("{} bytes were committed of {} reserved", bytes, reserved_));
  }
  enqueue(bytes, {}, envelope);
}

Ticket TcpSender::send_stable(std::span<const std::byte> bytes, Envelope envelope) {
  if (bytes.size() < stable_from) return Sender::send_stable(bytes, envelope);
  if (!has_room()) return 0;
  if (bytes.size() > max_message_) {
    fail(Code::kInternal, fmt::format("a message of {} bytes was sent; the limit is {}", bytes.size(), max_message_));
    return 0;
  }
  enqueue(bytes.size(), bytes, envelope);
  return queued_;
}

std::optional<uint32_t> TcpSender::checksum(std::span<const std::byte> payload) const {
  if (!checksum_) return {};
  return crc32c(payload);
}

void TcpSender::enqueue(size_t bytes, std::span<const std::byte> stable, Envelope envelope) {
  std::byte* header = slot();
  const size_t behind_header = stable.empty() ? bytes : 0;
  const auto sum = checksum(stable.empty() ? std::span<const std::byte>(header + kWireHeaderBytes, bytes) : stable);
  encode_header({static_cast<uint32_t>(bytes), envelope, static_cast<uint32_t>(queued_), sum}, header);
  queue_[queued_ % kPipeDepth] = {{header, kWireHeaderBytes + behind_header}, stable};
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
