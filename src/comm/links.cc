// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A frame is a header (length, number of handles, checksum of the bytes, checksum of these three; four bytes each),
// then the bytes. A heartbeat is a frame without bytes.
#include "comm/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "comm/links_heart.h"

namespace hocket {
namespace {

constexpr size_t kHeaderBytes = 16;
constexpr size_t kReadBytes = 16 * 1024;
constexpr uint32_t kMaxHandles = 16;       // of one frame
constexpr size_t kMaxWaitingHandles = 64;  // arrived, while their frames have not
constexpr size_t kQueuedFrames = 16;       // of full length, that may wait for a peer that does not read

struct FrameHeader {
  uint32_t length = 0;
  uint32_t handles = 0;
  uint32_t checksum = 0;
};

uint32_t checksum(std::string_view bytes) { return crc32c(std::as_bytes(std::span(bytes))); }

std::string header_bytes(std::string_view frame, size_t handles) {
  Writer fields;
  fields.u32(static_cast<uint32_t>(frame.size()));
  fields.u32(static_cast<uint32_t>(handles));
  fields.u32(checksum(frame));
  std::string bytes = fields.take();
  Writer own;
  own.u32(checksum(bytes));
  return bytes + own.take();
}

Status damaged() { return {Code::kRemote, "a frame that was damaged on its way (its checksum differs)"}; }

// Fails with the reason alone.
Result<FrameHeader> read_header(std::string_view bytes, size_t max_frame) {
  Reader reader(bytes);
  const FrameHeader header{reader.u32(), reader.u32(), reader.u32()};
  if (reader.u32() != checksum(bytes.substr(0, kHeaderBytes - sizeof(uint32_t)))) return damaged();
  if (header.length <= max_frame && header.handles <= kMaxHandles) return header;
  return Status(Code::kRemote, fmt::format("a frame of {} bytes and {} handles; the limits are {} and {}",
                                           header.length, header.handles, max_frame, kMaxHandles));
}

}  // namespace

Link::Link(const Context& context, std::unique_ptr<Socket> socket, size_t max_frame)
    : context_(context), socket_(std::move(socket)), max_frame_(max_frame), heard_(context.system.clock.now()) {}

Link::~Link() {
  *alive_ = false;
  context_.heart.remove(this);
  if (!ended_) context_.reactor.unwatch(socket_->handle());
  for (const Handle handle : handles_in_) context_.system.network.close(handle);
}

Status Link::start(FrameHandler on_frame, EndHandler on_end) {
  on_frame_ = std::move(on_frame);
  on_end_ = std::move(on_end);
  context_.heart.add(this);
  return context_.reactor.watch(socket_->handle(), [this] { on_news(); });
}

void Link::send(std::string frame, std::vector<Handle> handles) {
  if (ended_) return;
  std::string bytes = header_bytes(frame, handles.size()) + frame;
  queued_bytes_ += bytes.size();
  queue_.push_back({std::move(bytes), std::move(handles)});
  if (queue_.size() > 1 || push().ok()) return;
  // Never ends the link in here: the caller may be walking over its links.
  context_.reactor.post([this, alive = alive_] {
    if (*alive) on_news();
  });
}

void Link::send_last(const std::string& frame) {
  const std::string bytes = header_bytes(frame, 0) + frame;
  const std::span<const std::byte> whole = std::as_bytes(std::span(bytes));
  if (queue_.empty()) (void)socket_->send(std::span(&whole, 1));
}

void Link::beat() {
  if (queue_.empty()) send({});
}

void Link::outlive_connections(QuietHandler on_quiet) {
  on_quiet_ = std::move(on_quiet);
  history_.keep();
}

// The connection before stays open until the other end has left it: its end would look like ours.
Status Link::move_to(std::unique_ptr<Socket> socket) {
  context_.reactor.unwatch(socket_->handle());
  left_behind_.push_back(std::exchange(socket_, std::move(socket)));
  heard_ = context_.system.clock.now();
  const std::string greeting = history_.move();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(greeting));
  (void)socket_->send(std::span(&bytes, 1));  // a new connection takes so few bytes, or is broken
  return context_.reactor.watch(socket_->handle(), [this] { on_news(); });
}

void Link::expect_news_since(Time oldest, Time recently) {
  if (ended_ || heard_ >= recently) return;
  // What lies unread in the socket counts.
  if (!read() || heard_ >= recently) return;
  if (heard_ >= oldest) {
    if (on_quiet_) on_quiet_();
    return;
  }
  (void)end(End::kSilent, Status(Code::kTimeout, fmt::format("{} is silent", socket_->peer_name())));
}

void Link::on_news() {
  if (!ended_ && read()) (void)write();
}

bool Link::read() {
  std::array<std::byte, kReadBytes> buffer;
  for (;;) {
    const Result<size_t> got = socket_->receive(buffer);
    if (!got.ok() && history_.is_moving()) return context_.reactor.unwatch(socket_->handle()), true;
    if (!got.ok()) return end(End::kClosed, got.status());
    if (*got == 0) return true;
    heard_ = context_.system.clock.now();
    for (const Handle handle : socket_->take_handles()) handles_in_.push_back(handle);
    if (handles_in_.size() > kMaxWaitingHandles)
      return end(End::kMisbehaved, Status(Code::kRemote, "too many handles"));
    if (!take({reinterpret_cast<const char*>(buffer.data()), *got})) return false;
  }
}

bool Link::take(std::string_view bytes) {
  if (history_.is_moving()) {
    std::string missing;
    if (!history_.read_greeting(bytes, &missing)) return misbehaved("lacks what is not kept any more");
    if (history_.is_moving()) return true;
    left_behind_.clear();
    queued_bytes_ += missing.size();
    if (!missing.empty()) queue_.push_front({std::move(missing), {}});
  }
  history_.note_received(bytes.size());
  in_.append(bytes);
  return deliver_frames();
}

bool Link::deliver_frames() {
  while (in_.size() >= kHeaderBytes) {
    const Result<FrameHeader> header = read_header(std::string_view(in_).substr(0, kHeaderBytes), max_frame_);
    if (!header.ok()) return misbehaved("sent " + header.status().message());
    if (in_.size() < kHeaderBytes + header->length) return true;
    if (header->handles > handles_in_.size()) return misbehaved("announced handles that did not come");
    const std::string frame = in_.substr(kHeaderBytes, header->length);
    if (checksum(frame) != header->checksum) return misbehaved("sent " + damaged().message());
    in_.erase(0, kHeaderBytes + header->length);
    std::vector<Handle> taken(handles_in_.begin(), handles_in_.begin() + header->handles);
    handles_in_.erase(handles_in_.begin(), handles_in_.begin() + header->handles);
    if (frame.empty()) continue;
    const std::shared_ptr<bool> alive = alive_;
    const FrameHandler on_frame = on_frame_;  // the handler may destroy this link
    on_frame(frame, std::move(taken));
    if (!*alive || ended_) return false;
  }
  return true;
}

bool Link::write() {
  if (const Status status = push(); !status.ok()) {
    // What the peer said before it went (a farewell, a failure) is worth more than this error.
    return read() && end(End::kClosed, status);
  }
  if (queued_bytes_ <= kQueuedFrames * max_frame_) return true;
  return misbehaved(fmt::format("does not read: {} bytes wait for it", queued_bytes_));
}

Status Link::push() {
  while (!queue_.empty() && !history_.is_moving()) {
    const Result<size_t> sent = write_first();
    if (!sent.ok()) return sent.status();
    if (*sent == 0) return {};
    history_.note_sent(std::string_view(queue_.front().bytes).substr(0, *sent));
    queued_bytes_ -= *sent;
    queue_.front().bytes.erase(0, *sent);
    if (queue_.front().bytes.empty()) queue_.pop_front();
  }
  return {};
}

Result<size_t> Link::write_first() {
  const Outgoing& first = queue_.front();
  if (on_quiet_ && socket_->under_way() == 0) under_way_since_ = context_.system.clock.now();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(first.bytes));
  if (!first.handles.empty()) return socket_->send_handles(bytes, first.handles);
  return socket_->send(std::span(&bytes, 1));
}

bool Link::misbehaved(const std::string& what) {
  return end(End::kMisbehaved, Status(Code::kRemote, fmt::format("{} {}", socket_->peer_name(), what)));
}

bool Link::end(End how, const Status& why) {
  ended_ = true;
  context_.heart.remove(this);
  context_.reactor.unwatch(socket_->handle());
  const EndHandler on_end = std::move(on_end_);
  if (on_end) on_end(how, why);
  return false;
}

}  // namespace hocket
