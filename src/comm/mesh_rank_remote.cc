// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One-sided access where memory is not shared: asking a peer's service thread, and serving peers on ours.
#include <cstring>
#include <utility>

#include "comm/mesh_rank.h"
#include "comm/remote_wire.h"
#include "comm/signals.h"

namespace hocket {
namespace {

// Under way to one peer: what waits on its link is bounded by them.
constexpr size_t kMostAccesses = 8;

}  // namespace

std::shared_ptr<const RemoteAnswer> MeshRank::access(int32_t peer, const RemoteRequest& request) {
  auto answer = std::make_shared<RemoteAnswer>();
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    auto& under_way = accesses_[peer];
    if (under_way.size() >= kMostAccesses) return nullptr;
    id = ++last_access_;
    under_way[id] = answer;
  }
  service_.reactor().post([self = shared_from_this(), peer, message = access_message(id, request)] {
    if (!self->has_left(peer) && !self->said_farewell_) self->links_.send(peer, message);
  });
  return answer;
}

void MeshRank::on_access(int32_t peer, Reader& reader) {
  uint64_t id = 0;
  RemoteRequest request;
  if (!read_access(reader, &id, &request)) return on_misbehaviour(peer, "its one-sided access was malformed");
  if (said_farewell_) return;  // our memory is no longer ours to give
  links_.send(peer, access_reply_message(id, serve(peer, request)));
}

RemoteReply MeshRank::serve(int32_t peer, const RemoteRequest& request) {
  using Kind = RemoteRequest::Kind;
  RemoteReply reply;
  if (request.kind == Kind::kDoor) return open_door(peer, request);
  if (request.kind != Kind::kSignal) {
    reply = windows_.serve(request.window, [&](std::span<std::byte> part) {
      RemoteReply done = check_access(request, part);
      if (done.outcome != RemoteReply::Outcome::kDone) return done;
      std::byte* const at = part.data() + request.offset;
      if (request.kind == Kind::kPut) {
        std::memcpy(at, request.data.data(), request.data.size());
      } else if (request.kind == Kind::kGet) {
        done.data.assign(reinterpret_cast<const char*>(at), request.bytes);
      } else {
        const uint64_t before = update(request, at);
        done.data.assign(reinterpret_cast<const char*>(&before), sizeof before);
      }
      return done;
    });
  }
  if (reply.outcome != RemoteReply::Outcome::kDone || request.signal < 0) return reply;
  return windows_.serve(WindowTable::kSignals, [&](std::span<std::byte> board) {
    if (SignalBoard(board).raise(peer, request.signal)) poller_->wake();
    return RemoteReply();
  });
}

RemoteReply MeshRank::open_door(int32_t peer, const RemoteRequest& request) {
  if (request.data.empty()) return doors_.dismiss(peer), RemoteReply();
  return windows_.serve(request.window, [&](std::span<std::byte> part) {
    RemoteReply reply;
    reply.limit = part.size();
    reply.data = doors_.admit(peer, request.data, request.window);
    return reply;
  });
}

void MeshRank::expose(uint32_t window) {
  const WindowTable::Reach own = windows_.reach(rank_, window);
  if (own.state == WindowTable::Reach::State::kNear) doors_.expose(transports_, window, own.part);
}

bool MeshRank::close_window(uint32_t window) {
  doors_.withdraw(window);
  return windows_.close(window);
}

void MeshRank::on_access_reply(int32_t peer, Reader& reader) {
  uint64_t id = 0;
  RemoteReply reply;
  if (!read_access_reply(reader, &id, &reply)) return on_misbehaviour(peer, "its reply to an access was malformed");
  std::shared_ptr<RemoteAnswer> answer;
  {
    const std::lock_guard lock(mutex_);
    auto& under_way = accesses_[peer];
    const auto found = under_way.find(id);
    if (found != under_way.end()) answer = under_way.extract(found).mapped();
  }
  if (answer == nullptr) return on_misbehaviour(peer, "it replied to an access that was never made");
  answer->reply = std::move(reply);
  answer->there.store(true, std::memory_order_release);
  poller_->wake();
}

void MeshRank::wake(int32_t peer) {
  service_.reactor().post([self = shared_from_this(), peer] {
    const std::shared_ptr<MeshRank> sibling = self->rank_here(peer);
    if (sibling != nullptr) return sibling->poller_->wake();
    self->waker_of(peer)->wake();
  });
}

}  // namespace hocket
