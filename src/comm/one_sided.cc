// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/one_sided.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/communicator.h"
#include "comm/remote_wire.h"
#include "comm/signals.h"

namespace hocket {
namespace {

using Kind = RemoteRequest::Kind;
using Reach = WindowTable::Reach;

// Copied before whoever drives looks at its other work.
constexpr uint64_t kNearBytes = 1 << 20;
// Of one access; others to the same peer find room beside them.
constexpr size_t kMostPieces = 4;

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::kPut:
      return "put";
    case Kind::kGet:
      return "get";
    case Kind::kFetch:
      return "fetch_op";
    case Kind::kCompareSwap:
      return "compare_swap";
    case Kind::kSignal:
    case Kind::kDoor:  // no call of the program's
      break;
  }
  return "signal";
}

}  // namespace

void OneSided::issue(bool /*blocks*/) {
  communicator_.one_sided().issued.fetch_add(1);
  ended_ = false;
  status_ = Status();
  stalled_ = Time{};
}

bool OneSided::advance() {
  if (ended_) return false;
  if (communicator_.mesh().failed()) {
    end(communicator_.mesh().status());
    return true;
  }
  const bool moved = step();
  news_ |= moved;
  return moved;
}

void OneSided::end(Status status) {
  let_go();
  set_waiting(false);  // the communicator may be gone as soon as this does not count as under way
  status_ = std::move(status);
  ended_ = true;
  communicator_.one_sided().ended.fetch_add(1, std::memory_order_release);
}

void OneSided::refuse(const std::string& why) {
  end(Status(Code::kInvalidArgument,
             fmt::format("{}rank {}: {}: {}", communicator_.prefix(), communicator_.rank(), describe(), why)));
}

void OneSided::fail(Code code, const std::string& why) {
  Mesh& mesh = communicator_.mesh();
  mesh.fail(
      Status(code, fmt::format("{}rank {}: {}: {}", communicator_.prefix(), communicator_.rank(), describe(), why)));
  end(mesh.status());
}

bool OneSided::examine(Time now) {
  if (ended_) return false;
  const Duration stopped = examined_.look(now);
  if (stalled_ != Time{}) stalled_ += stopped;
  const bool left = communicator_.mesh().has_left(awaited());
  retry();
  // What the peer did before it left counts.
  if (advance() || std::exchange(news_, false) || stalled_ == Time{} || waits_for_others()) {
    stalled_ = now;
  } else if (left) {
    fail(Code::kRemote, fmt::format("rank {} has left", awaited()));
  } else if (now - stalled_ > communicator_.operation_timeout()) {
    fail(Code::kTimeout, fmt::format("nothing came from rank {} within {:g} s (the operation timeout)", awaited(),
                                     seconds(communicator_.operation_timeout())));
  }
  return ended_;
}

// ---- Access

std::string describe(const RemoteCall& call) {
  const RemoteRequest& request = call.request;
  if (request.kind == Kind::kSignal) return fmt::format("signal {} to rank {}", request.signal, call.peer);
  return fmt::format("{} (window {}, offset {}, {} bytes) at rank {}", name(request.kind), request.window,
                     request.offset, request.bytes, call.peer);
}

std::string RemoteAccess::describe() const { return hocket::describe(call_); }

bool RemoteAccess::step() {
  if (far_) {
    const bool answered = take_answers();
    if (!ended()) ask();  // which is no news
    return answered;
  }
  // Its memory is still there, but it is nobody's: examine() says so.
  if (communicator_.mesh().has_left(call_.peer)) return false;
  if (door_ != nullptr) return transfer_ != nullptr ? go_on_by_device() : go_in();
  return accessed_ ? signal() : reach();
}

bool RemoteAccess::reach() {
  if (call_.request.kind == Kind::kSignal) {
    accessed_ = true;
    return signal();
  }
  const Reach reach = communicator_.mesh().windows().reach(call_.peer, call_.request.window);
  switch (reach.state) {
    case Reach::State::kNotYet:
      return false;
    case Reach::State::kNone:
      OneSided::refuse("this rank has no such window");
      return true;
    case Reach::State::kNear:
      work_on(reach.part);
      return true;
    case Reach::State::kDevice:
      OneSided::refuse("the window is memory of a device, which this call does not reach");
      return true;
    case Reach::State::kFar:
      break;
  }
  const bool only_moves = call_.request.kind == Kind::kPut || call_.request.kind == Kind::kGet;
  door_ = only_moves ? communicator_.mesh().door(call_.peer) : nullptr;
  return door_ != nullptr ? go_in() : go_far();
}

bool RemoteAccess::go_far() {
  door_ = nullptr;
  far_ = true;
  ask();
  return true;
}

bool RemoteAccess::go_in() {
  RemoteDoor::Entrance entrance = door_->begin(call_.request, call_.local);
  if (entrance.state == RemoteDoor::Entrance::State::kWait) return false;
  if (entrance.state == RemoteDoor::Entrance::State::kService) return go_far();
  transfer_ = std::move(entrance.transfer);
  end_ = entrance.end;
  return go_on_by_device();
}

// Where it breaks, nobody knows what has moved: it is done again.
bool RemoteAccess::go_on_by_device() {
  const size_t before = transfer_->moved();
  const Status status = transfer_->advance();
  if (status.ok() && !transfer_->done()) return transfer_->moved() > before;
  transfer_ = nullptr;
  door_->report(end_, status);
  if (!status.ok()) return true;
  door_ = nullptr;
  finish_access();
  return true;
}

void RemoteAccess::finish_access() {
  accessed_ = true;
  if (call_.request.signal < 0) return end({});
  signal();
}

void RemoteAccess::set_waiting(bool waiting) {
  // Where that fails, the next look says so.
  if (waiting && transfer_ != nullptr) (void)transfer_->arm();
}

// Of a long one a piece, so that whoever drives it can look after its other work.
void RemoteAccess::work_on(std::span<std::byte> part) {
  const RemoteRequest& request = call_.request;
  if (const RemoteReply reply = check_access(request, part); reply.outcome != RemoteReply::Outcome::kDone) {
    return refuse(reply);
  }
  std::byte* const at = part.data() + request.offset;
  if (request.kind == Kind::kPut || request.kind == Kind::kGet) {
    const uint64_t bytes = std::min<uint64_t>(request.bytes - moved_, kNearBytes);
    std::byte* const theirs = at + moved_;
    std::byte* const ours = static_cast<std::byte*>(call_.local) + moved_;
    if (bytes > 0)
      std::memcpy(request.kind == Kind::kPut ? theirs : ours, request.kind == Kind::kPut ? ours : theirs, bytes);
    moved_ += bytes;
    if (moved_ < request.bytes) return;
  } else {
    const uint64_t before = update(request, at);
    if (call_.local != nullptr) std::memcpy(call_.local, &before, request.bytes);
  }
  finish_access();
}

bool RemoteAccess::signal() {
  Mesh& mesh = communicator_.mesh();
  const Reach reach = mesh.windows().reach(call_.peer, WindowTable::kSignals);
  switch (reach.state) {
    case Reach::State::kNotYet:
      return false;
    case Reach::State::kNone:
      OneSided::refuse("signals need a window, and this rank has registered none");
      return true;
    case Reach::State::kNear:
      if (SignalBoard(reach.part).raise(communicator_.rank(), call_.request.signal)) mesh.wake(call_.peer);
      end({});
      return true;
    case Reach::State::kDevice:  // signals never lie there
    case Reach::State::kFar:
      break;
  }
  call_.request.kind = Kind::kSignal;  // what is left of it
  call_.request.bytes = 0;
  return go_far();
}

// The first piece goes alone: it finds out whether the window is there, and long enough for all of them.
void RemoteAccess::ask() {
  while (!all_asked_ && may_ask_ && pieces_.size() < (confirmed_ ? kMostPieces : 1)) {
    RemoteRequest piece = call_.request;
    const bool whole = piece.kind != Kind::kPut && piece.kind != Kind::kGet;
    const uint64_t bytes = whole ? piece.bytes : std::min<uint64_t>(piece.bytes - moved_, kMaxRemoteBytes);
    const bool last = whole || moved_ + bytes == piece.bytes;
    piece.offset += moved_;
    piece.extent = piece.bytes - (whole ? 0 : moved_);
    piece.bytes = bytes;
    if (piece.kind == Kind::kPut) piece.data.assign(static_cast<const char*>(call_.local) + moved_, bytes);
    if (!last) piece.signal = -1;
    const auto answer = communicator_.mesh().access(call_.peer, piece);
    crowded_out_ = answer == nullptr;
    if (crowded_out_) return;
    pieces_.push_back({moved_, bytes, answer});
    moved_ += bytes;
    all_asked_ = last;
  }
}

bool RemoteAccess::take_answers() {
  bool moved = false;
  while (!pieces_.empty() && pieces_.front().answer->there.load(std::memory_order_acquire)) {
    const Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    const RemoteReply& reply = piece.answer->reply;
    if (reply.outcome == RemoteReply::Outcome::kNotYet) {
      moved_ = piece.offset;  // once more, a while later
      all_asked_ = may_ask_ = false;
      return moved;
    }
    moved = true;
    if (reply.outcome != RemoteReply::Outcome::kDone) {
      refuse(reply);
      return true;
    }
    confirmed_ = true;
    const size_t expected = call_.request.kind == Kind::kGet ? piece.bytes
                            : call_.request.kind == Kind::kPut || call_.request.kind == Kind::kSignal
                                ? 0
                                : sizeof(uint64_t);
    if (reply.data.size() != expected) {
      fail(Code::kInternal,
           fmt::format("rank {} answered {} bytes instead of {}", call_.peer, reply.data.size(), expected));
      return true;
    }
    if (expected > 0 && call_.local != nullptr) {
      std::memcpy(static_cast<std::byte*>(call_.local) + piece.offset, reply.data.data(), piece.bytes);
    }
  }
  if (moved && pieces_.empty() && all_asked_) end({});
  return moved;
}

void RemoteAccess::refuse(const RemoteReply& reply) {
  switch (reply.outcome) {
    case RemoteReply::Outcome::kOutside:
      return OneSided::refuse(fmt::format("the peer's part has {} bytes", reply.limit));
    case RemoteReply::Outcome::kMisaligned:
      return OneSided::refuse("that is no address of such an integer there");
    default:
      return OneSided::refuse("the peer has deregistered it");
  }
}

// ---- Signals

bool SignalWait::step() {
  const size_t before = taken_;
  while (taken_ < awaited_.size()) {
    const Awaited& next = awaited_[taken_];
    if (!communicator_.signals()->take(next.peer, next.signal, next.count)) break;
    ++taken_;
    seen_ = 0;
  }
  if (taken_ == awaited_.size()) {
    end({});
    return true;
  }
  const Awaited& next = awaited_[taken_];
  const uint64_t came = communicator_.signals()->left(next.peer, next.signal);
  return std::exchange(seen_, came) != came || taken_ != before;
}

void SignalWait::set_waiting(bool waiting) {
  if (ended() || std::exchange(waits_, waiting) == waiting) return;
  const auto sleepers = communicator_.signals()->board().sleepers();
  if (waiting) {
    sleepers.fetch_add(1);
  } else {
    sleepers.fetch_sub(1);
  }
}

std::string SignalWait::describe() const {
  const Awaited& next = awaited_[taken_];
  return fmt::format("wait_signal ({} of {} signals {} of rank {} have come)",
                     communicator_.signals()->left(next.peer, next.signal), next.count, next.signal, next.peer);
}

}  // namespace hocket
