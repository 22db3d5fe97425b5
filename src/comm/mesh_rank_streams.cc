// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A pipe between hosts outlives its connection: who dialled dials again, both ends say over the link how far they have
// received, and go on from there. Whether the peer lives is the links' business, and what they say ends its streams.
#include <fmt/format.h>

#include "base/log.h"
#include "comm/mesh_rank.h"
#include "comm/service_interfaces.h"

namespace hocket {
namespace {

constexpr Duration kResendPause = std::chrono::milliseconds(1);

}  // namespace

bool MeshRank::is_far(int32_t peer) const {
  return peers_[static_cast<size_t>(peer)].host_identity != service_.self().host_identity;
}

std::shared_ptr<LastingStream> MeshRank::stream(const PipeName& name, PipeEnd end) const {
  const auto found = streams_.find({name, end});
  return found == streams_.end() ? nullptr : found->second;
}

std::unique_ptr<Socket> MeshRank::lasting(const PipeName& name, PipeEnd end, std::unique_ptr<Socket> socket) {
  if (!is_far(name.peer)) return socket;
  const auto on_news = [this, name, end, self = weak_from_this()] {
    service_.reactor().post([this, name, end, self] {
      if (const auto alive = self.lock()) on_stream_news(name, end);
    });
  };
  const auto stream =
      std::make_shared<LastingStream>(service_.system().threads, poller_, std::move(socket), on_news, stream_budget_);
  streams_[{name, end}] = stream;
  if (has_left(name.peer)) stream->end();
  // Only a link notices that an interface is lost.
  if (interface_count(peer(name.peer).interfaces) > 1) links_.open(name.peer);
  return stream->socket();
}

void MeshRank::end_streams(int32_t peer) {
  for (const auto& [name, stream] : streams_) {
    if (name.first.peer == peer) stream->end();
  }
}

void MeshRank::on_stream_news(const PipeName& name, PipeEnd end) {
  const auto found = stream(name, end);
  if (found == nullptr || said_farewell_ || failed() || has_left(name.peer)) return;
  if (end == PipeEnd::kSender && !found->loss().empty()) return open_pipe(name);
  links_.send(name.peer, stream_message(name, end, found->report()));
}

void MeshRank::on_stream(int32_t peer, Reader& reader) {
  PipeName name;
  PipeEnd theirs{};
  LastingStream::Report report;
  if (!read_stream(reader, &name, &theirs, &report))
    return on_misbehaviour(peer, "what it said of a stream was malformed");
  name.peer = peer;
  const PipeEnd ours = other(theirs);
  const auto found = stream(name, ours);
  if (found == nullptr) return;  // our side of the handshake was lost: it is dialled again
  if (!found->hear(report)) return on_misbehaviour(peer, "it has received what nobody sent");
  resend(name, ours);
}

void MeshRank::replace(const PipeName& name, LastingStream& sending, std::unique_ptr<Socket> socket) {
  log_warn("rank {}: the connection of lane {} to {} was lost ({}) and is replaced", rank_, name.lane,
           describe(name.peer), sending.loss());
  go_on(name, PipeEnd::kSender, std::move(socket), static_cast<uint16_t>(sending.connection() + 1));
}

void MeshRank::go_on(const PipeName& name, PipeEnd end, std::unique_ptr<Socket> socket, uint16_t connection) {
  stream(name, end)->adopt(std::move(socket), connection);
  on_stream_news(name, end);
  resend(name, end);
}

void MeshRank::on_link_moved(int32_t peer, size_t from, size_t to, bool is_lost) {
  const PeerInfo& info = peers_[static_cast<size_t>(peer)];
  if (info.addresses.empty()) {  // it came to us, and we do not know all ranks yet
    return log_warn("rank {}: the interface by which {} came is silent: its link goes over another", rank_,
                    describe(peer));
  }
  const std::string silence =
      is_lost ? fmt::format(
                    "nothing comes over {} of {} any more, or over ours that leads there: 1 of {} interfaces is "
                    "lost",
                    info.way(from), info.host_name, interface_count(info.interfaces))
              : fmt::format("for long nothing came over {} of {}", info.way(from), info.host_name);
  log_warn("rank {}: {}, and what goes to {} goes over {}", rank_, silence, describe(peer), info.way(to));
  bool has_pipes = false;
  for (const auto& [name, stream] : streams_) {
    has_pipes |= name.first.peer == peer;
    if (name.first.peer == peer && name.second == PipeEnd::kSender) stream->drop("its interface is silent");
  }
  if (!is_lost || !has_pipes || transports_[static_cast<size_t>(peer)]->follows_socket()) return;
  fail(Status(Code::kRemote,
              fmt::format("rank {} and {} hear nothing of each other over {} any more, and {} cannot go over another "
                          "interface",
                          rank_, describe(peer), info.way(from), transport_name(peer))));
}

// The thread that sent may not come back for long.
void MeshRank::resend(const PipeName& name, PipeEnd end) {
  const auto found = stream(name, end);
  if (found == nullptr || said_farewell_ || found->resend()) return;
  const Time later = service_.system().clock.now() + kResendPause;
  service_.reactor().at(later, [this, name, end, self = weak_from_this()] {
    if (const auto alive = self.lock()) resend(name, end);
  });
}

}  // namespace hocket
