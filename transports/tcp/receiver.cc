// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/tcp/receiver.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/crc32c.h"

namespace hocket {
namespace {

// Enough that a short message and its header, or the next header of a stream of long ones, need no call of their own;
// little enough that copying it onward costs nothing.
constexpr size_t kReadAhead = 8 << 10;

constexpr std::array<std::byte, kWireLine> kZeros{};  // as much as padding can be

}  // namespace

TcpReceiver::TcpReceiver(const PipeContext& context, std::shared_ptr<Socket> socket, std::string name)
    : poller_(context.poller),
      socket_(std::move(socket)),
      name_(std::move(name)),
      max_message_(context.max_message),
      capacity_(kWireLine + std::max(max_message_, kWireLine) + kReadAhead),
      memory_(capacity_),
      held_(context.budget),
      buffer_(memory_.bytes().data()) {
  into_from = 2 * kReadAhead;
}

TcpReceiver::~TcpReceiver() { poller_.remove(socket_->handle()); }

const Message* TcpReceiver::peek() {
  if (state_ == State::kReady) return &message_;
  if (!read_header()) return nullptr;
  if (state_ == State::kDirect) {
    fail(Code::kInternal, "peek in the middle of receive_into");
    return nullptr;
  }
  if (buffered() < header_.length && !fill(header_.length)) return nullptr;
  place({buffer_ + begin_, header_.length});
  return ready(buffer_ + begin_, header_.length);
}

const Message* TcpReceiver::receive_into(std::span<std::byte> into) {
  if (!read_header()) return nullptr;
  if (header_.length != into.size()) return peek();
  if (state_ == State::kReady) {
    if (message_.data != into.data() && !into.empty()) std::memcpy(into.data(), message_.data, into.size());
    message_.data = into.data();
    return &message_;
  }
  if (state_ == State::kPayload) {
    const size_t here = std::min(buffered(), into.size());
    if (here > 0) std::memcpy(into.data(), buffer_ + begin_, here);
    begin_ += here;
    state_ = State::kDirect;
    place(into.first(here));
  }
  if (placed_ < into.size()) place(into.subspan(placed_, receive(into.subspan(placed_))));
  return placed_ < into.size() ? nullptr : ready(into.data(), 0);
}

// Sums up at once, while the bytes are in the cache.
void TcpReceiver::place(std::span<const std::byte> part) {
  if (header_.checksum) sum_ = crc32c(part, sum_);
  placed_ += part.size();
}

const Message* TcpReceiver::ready(const std::byte* data, size_t in_buffer) {
  if (header_.checksum && *header_.checksum != sum_) {
    fail(Code::kRemote,
         fmt::format("{} sent message {}, whose {} bytes were damaged on their way (the checksum differs)",
                     socket_->peer_name(), header_.number, header_.length));
    return nullptr;
  }
  state_ = State::kReady;
  in_buffer_ = in_buffer;
  message_ = Message{data, header_.length, header_.envelope.digest()};
  return &message_;
}

void TcpReceiver::release() {
  if (state_ != State::kReady) return;
  state_ = State::kHeader;
  begin_ += in_buffer_;
}

bool TcpReceiver::read_header() {
  if (!status_.ok()) return false;
  if (state_ == State::kPadding) return skip_padding();
  if (state_ != State::kHeader) return true;
  if (buffered() < kWireHeaderBytes && !fill(kWireHeaderBytes)) return false;
  if (const Status status = decode_header(buffer_ + begin_, number_, max_message_, &header_); !status.ok()) {
    fail(status.code(), fmt::format("{} sent {}", socket_->peer_name(), status.message()));
    return false;
  }
  placed_ = 0;
  sum_ = 0;
  begin_ += kWireHeaderBytes;
  state_ = State::kPadding;
  return skip_padding();
}

bool TcpReceiver::skip_padding() {
  if (buffered() < header_.padding && !fill(header_.padding)) return false;
  if (std::memcmp(buffer_ + begin_, kZeros.data(), header_.padding) != 0) {
    fail(Code::kRemote,
         fmt::format("{} sent message {}, whose padding was damaged on its way", socket_->peer_name(), header_.number));
    return false;
  }
  begin_ += header_.padding;
  ++number_;
  state_ = State::kPayload;
  return true;
}

bool TcpReceiver::fill(size_t wanted) {
  make_room(wanted);
  end_ += receive({buffer_ + end_, wanted - buffered() + kReadAhead});
  held_.grow_to(end_);
  return buffered() >= wanted;
}

void TcpReceiver::make_room(size_t wanted) {
  // As in the stream, within a line: so the kernel copies to here from where it lies alike.
  const size_t start = (stream_ - buffered()) % kWireLine;
  if (buffered() > 0 && begin_ + wanted + kReadAhead <= capacity_) return;
  if (buffered() > 0) std::memmove(buffer_ + start, buffer_ + begin_, buffered());
  end_ = start + buffered();
  begin_ = start;
}

size_t TcpReceiver::receive(std::span<std::byte> into) {
  const Result<size_t> got = socket_->receive(into);
  if (got.ok()) {
    stream_ += *got;
    return *got;
  }
  fail(got.status().code(), got.status().message() + where());
  return 0;
}

std::string TcpReceiver::where() const {
  if (state_ == State::kHeader && buffered() == 0) return "";
  if (state_ == State::kHeader || state_ == State::kPadding)
    return fmt::format(" (before the payload of message {})", number_);
  return fmt::format(" (after {} of {} bytes of message {})", state_ == State::kDirect ? placed_ : buffered(),
                     header_.length, header_.number);
}

void TcpReceiver::fail(Code code, std::string what) {
  if (status_.ok()) status_ = Status(code, fmt::format("{}: {}", name_, what));
}

}  // namespace hocket
