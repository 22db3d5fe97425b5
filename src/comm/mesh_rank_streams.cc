// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A pipe between hosts outlives its connection: who receives says over the link how far it has come, who sends dials
// again and goes on from there. Whether the peer lives is the links' business.
#include <fmt/format.h>

#include "base/log.h"
#include "comm/mesh_rank.h"
#include "comm/service_interfaces.h"

namespace hocket {
namespace {

using Side = LastingStream::Side;

constexpr Duration kResendPause = std::chrono::milliseconds(1);

}  // namespace

bool MeshRank::is_far(int32_t peer) const {
  return peers_[static_cast<size_t>(peer)].host_identity != service_.self().host_identity;
}

std::shared_ptr<LastingStream> MeshRank::stream(const PipeName& name, Side side) const {
  const auto found = streams_.find({name, side});
  return found == streams_.end() ? nullptr : found->second;
}

std::unique_ptr<Socket> MeshRank::lasting(const PipeName& name, const Transport& transport, Side side,
                                          std::unique_ptr<Socket> socket) {
  if (!transport.one_way() || !is_far(name.peer)) return socket;
  const auto on_news = [this, name, side, self = weak_from_this()] {
    service_.reactor().post([this, name, side, self] {
      if (const auto alive = self.lock()) on_stream_news(name, side);
    });
  };
  const auto stream = std::make_shared<LastingStream>(poller_, side, std::move(socket), on_news);
  streams_[{name, side}] = stream;
  // Only a link notices that an interface is lost.
  if (interface_count(peer(name.peer).interfaces) > 1) links_.open(name.peer);
  return stream->socket();
}

void MeshRank::on_stream_news(const PipeName& name, Side side) {
  const auto found = stream(name, side);
  if (found == nullptr || said_farewell_ || failed() || has_left(name.peer)) return;
  if (side == Side::kReceiving) return links_.send(name.peer, stream_message(name, found->report()));
  if (!found->loss().empty()) open_pipe(name);
}

void MeshRank::on_stream(int32_t peer, Reader& reader) {
  PipeName name;
  LastingStream::Report report;
  if (!read_stream(reader, &name, &report)) return on_misbehaviour(peer, "what it said of a stream was malformed");
  name.peer = peer;
  const auto sending = stream(name, Side::kSending);
  if (sending == nullptr) return;  // our side of the handshake was lost: it is dialled again
  if (!sending->hear(report)) return on_misbehaviour(peer, "it has received what nobody sent");
  resend(name);
}

void MeshRank::replace(const PipeName& name, LastingStream& sending, std::unique_ptr<Socket> socket) {
  log_warn("rank {}: the connection of lane {} to {} was lost ({}) and is replaced", rank_, name.lane,
           describe(name.peer), sending.loss());
  sending.adopt(std::move(socket), static_cast<uint16_t>(sending.connection() + 1));
  resend(name);
}

void MeshRank::on_link_moved(int32_t peer, size_t from, size_t to) {
  const PeerInfo& info = peers_[static_cast<size_t>(peer)];
  log_warn(
      "rank {}: nothing comes over {} of {} any more, or over ours that leads there: 1 of {} interfaces is lost, "
      "and what goes to {} goes over {}",
      rank_, info.way(from), info.host_name, interface_count(info.interfaces), describe(peer), info.way(to));
  for (const auto& [name, stream] : streams_) {
    if (name.first.peer == peer && name.second == Side::kSending) stream->drop("its interface is silent");
  }
}

// The thread that sent may not come back for long.
void MeshRank::resend(const PipeName& name) {
  const auto sending = stream(name, Side::kSending);
  if (sending == nullptr || said_farewell_ || sending->resend()) return;
  const Time later = service_.system().clock.now() + kResendPause;
  service_.reactor().at(later, [this, name, self = weak_from_this()] {
    if (const auto alive = self.lock()) resend(name);
  });
}

}  // namespace hocket
