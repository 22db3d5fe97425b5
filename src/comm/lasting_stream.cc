// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/lasting_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/caught.h"

namespace hocket {
namespace {

// At most; so seldom is what has come told to who keeps much, so that the service threads have little to do.
constexpr size_t kTellEvery = size_t{256} << 10;
// Copied and sent at once, while it is in the cache: a slice between hosts (choose/cut.h).
constexpr size_t kPiece = size_t{128} << 10;

}  // namespace

// What the pipe's end holds.
class LastingStream::End final : public Socket {
 public:
  explicit End(std::shared_ptr<LastingStream> stream) : stream_(std::move(stream)) {}
  ~End() override { stream_->close(); }

  Result<size_t> send(std::span<const std::span<const std::byte>> parts) override { return stream_->send(parts); }
  Result<size_t> receive(std::span<std::byte> into) override { return stream_->receive(into); }
  Result<size_t> send_handles(std::span<const std::byte>, std::span<const Handle>) override {
    return Status(Code::kInvalidUsage, "streams between hosts carry no handles");
  }
  std::vector<Handle> take_handles() override { return {}; }
  Handle handle() const override {
    const std::lock_guard lock(stream_->mutex_);
    return stream_->socket_ == nullptr ? kNoHandle : stream_->socket_->handle();
  }
  std::string peer_name() const override { return stream_->peer_name_; }
  size_t held_back() const override {
    const std::lock_guard lock(stream_->mutex_);
    return stream_->socket_ == nullptr ? 0 : stream_->socket_->held_back();
  }

 private:
  const std::shared_ptr<LastingStream> stream_;
};

LastingStream::LastingStream(Threads& threads, std::shared_ptr<Poller> poller, std::unique_ptr<Socket> first,
                             std::function<void()> on_news, std::shared_ptr<Budget> budget)
    : poller_(std::move(poller)),
      on_news_(std::move(on_news)),
      peer_name_(first->peer_name()),
      mutex_(threads),
      socket_(std::move(first)),
      kept_(std::move(budget)) {}

std::unique_ptr<Socket> LastingStream::socket() { return std::make_unique<End>(shared_from_this()); }

void LastingStream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  loss_.clear();
  socket_.reset();
}

// ---- The pipe's end

// From what is kept, so that the caller's memory is free at once, and the kernel may read ours without a copy.
Result<size_t> LastingStream::send(std::span<const std::span<const std::byte>> parts) {
  const std::lock_guard lock(mutex_);
  if (socket_ == nullptr || !loss_.empty()) return nothing();
  if (kept_.size() == 0) (void)kept_.grow(acked_, copied_);
  const size_t kept = kept_.size();
  const uint64_t begin = sent_;
  Result<bool> has_room = catch_up();
  while (has_room.ok() && *has_room && keep_piece(parts, sent_ - begin)) has_room = catch_up();
  sent_ = std::max(begin, written_);  // the rest is offered again, unchanged
  // The other side tells the more seldom; without memory to say so, as it did.
  if (kept_.size() > kept) (void)tried([&] { return on_news_(), Status(); });
  if (!has_room.ok() && ended_ && sent_ == begin) return has_room.status();
  return sent_ - begin;
}

// Of what follows the first `offset` bytes. False: there is nothing more, or no room.
bool LastingStream::keep_piece(std::span<const std::span<const std::byte>> parts, size_t offset) {
  if (sent_ - acked_ == kept_.size() && !kept_.grow(acked_, copied_)) return false;
  std::span<std::byte> room = kept_.at(sent_);
  room = room.first(std::min({kPiece, room.size(), kept_.size() - (sent_ - acked_)}));
  const uint64_t before = sent_;
  for (const std::span<const std::byte> part : parts) {
    const size_t skipped = std::min(offset, part.size());
    offset -= skipped;
    const size_t some = std::min(part.size() - skipped, room.size());
    const size_t there = std::min<uint64_t>(copied_ - sent_, some);
    if (some > there) std::memcpy(room.data() + there, part.data() + skipped + there, some - there);
    room = room.subspan(some);
    sent_ += some;
    copied_ = std::max(copied_, sent_);
  }
  return sent_ > before;
}

// Several times before the peer has no room left.
size_t LastingStream::tell_every() const { return std::min(kTellEvery, peer_keeps_ / 4); }

Result<size_t> LastingStream::receive(std::span<std::byte> into) {
  const std::lock_guard lock(mutex_);
  if (socket_ == nullptr) return nothing();
  const Result<size_t> got = socket_->receive(into);
  if (!got.ok()) {
    lose(got.status().message());
    return nothing();
  }
  received_ += *got;
  if (received_ - told_ >= tell_every()) {
    told_ = received_;
    on_news_();
  }
  return *got;
}

// Without a connection.
Result<size_t> LastingStream::nothing() const {
  if (!ended_) return size_t{0};
  return Status(Code::kRemote, fmt::format("{} is gone", peer_name_));
}

void LastingStream::lose(const std::string& why) {
  poller_->remove(socket_->handle());
  socket_.reset();
  want_another(why);
}

// What has come over this one can still be read: the peer may have sent its last, and left.
void LastingStream::want_another(const std::string& why) {
  if (ended_ || !loss_.empty()) return;
  loss_ = why;
  on_news_();
}

// ---- The service thread

void LastingStream::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    loss_.clear();
  }
  poller_->wake();
}

void LastingStream::drop(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (socket_ != nullptr) want_another(why);
}

void LastingStream::adopt(std::unique_ptr<Socket> socket, uint16_t connection) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (socket_ != nullptr) poller_->remove(socket_->handle());
    socket_ = std::move(socket);
    connection_ = connection;
    loss_.clear();
    resuming_ = reported_ != connection;
    if (!resuming_) written_ = acked_;
    if (const Status watched = poller_->add(socket_->handle()); !watched.ok()) lose(watched.message());
  }
  poller_->wake();
}

std::string LastingStream::loss() const {
  const std::lock_guard lock(mutex_);
  return loss_;
}

uint16_t LastingStream::connection() const {
  const std::lock_guard lock(mutex_);
  return connection_;
}

LastingStream::Report LastingStream::report() {
  const std::lock_guard lock(mutex_);
  told_ = received_;
  return {connection_, !loss_.empty(), received_, static_cast<uint32_t>(kept_.size())};
}

bool LastingStream::hear(const Report& report) {
  {
    const std::lock_guard lock(mutex_);
    if (report.received < acked_ || report.received > sent_) return false;
    acked_ = report.received;
    peer_keeps_ = std::max<size_t>(peer_keeps_, report.kept);
    reported_ = report.connection;
    const bool is_this = report.connection == connection_ && socket_ != nullptr;
    if (is_this && report.lost) want_another("the other end lost it");
    if (is_this && std::exchange(resuming_, false)) written_ = acked_;
  }
  poller_->wake();
  return true;
}

bool LastingStream::resend() {
  const std::lock_guard lock(mutex_);
  if (socket_ == nullptr || !loss_.empty() || resuming_) return true;
  const Result<bool> caught_up = catch_up();
  return !caught_up.ok() || *caught_up;
}

// False: the socket is full, or the other side has not said where to go on.
Result<bool> LastingStream::catch_up() {
  if (resuming_) return false;
  while (written_ < sent_) {
    const std::span<std::byte> kept = kept_.at(written_);
    const Result<size_t> sent = socket_->send_kept(kept.first(std::min<uint64_t>(sent_ - written_, kept.size())));
    if (!sent.ok()) {
      want_another(sent.status().message());
      return sent.status();
    }
    if (*sent == 0) return false;
    written_ += *sent;
  }
  return true;
}

}  // namespace hocket
