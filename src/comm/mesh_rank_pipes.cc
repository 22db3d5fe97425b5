// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Opening pipes. The sender's side begins; how its offer travels is the transport's choice of carrier: an object goes
// straight to the sibling's table, handles go over the link, a socket is dialled. One that carries a pipe each way is
// dialled by whoever sends first; when both dial, it is as with links: the lower rank's stays.
#include <fmt/format.h>

#include <algorithm>

#include "comm/mesh_rank.h"
#include "comm/service_interfaces.h"

namespace hocket {
namespace {

using Transports = std::vector<const Transport*>;

// The first of `wished` that is allowed and reaches the peer; null: there is none.
const Transport* first_of(const Transports& wished, const Transports& allowed, const PeerInfo& self,
                          const PeerInfo& peer) {
  const auto best = std::find_if(wished.begin(), wished.end(), [&](const Transport* transport) {
    return std::find(allowed.begin(), allowed.end(), transport) != allowed.end() && transport->reaches(self, peer);
  });
  return best == wished.end() ? nullptr : *best;
}

Status opened_twice(int32_t peer, int lane, int32_t rank) {
  return {Code::kInternal, fmt::format("rank {} opened lane {} to rank {} twice", peer, lane, rank)};
}

}  // namespace

// By what the two have told, so all ranks know it alike: in the order of the lower rank's list.
const Transport* MeshRank::transport_between(const PeerInfo& a, const PeerInfo& b) const {
  const auto allowed = choose_transports(service_.options().transports);
  if (!allowed.ok()) return nullptr;  // the service does not start with such a setting
  const PeerInfo& lower = a.rank < b.rank ? a : b;
  const PeerInfo& upper = a.rank < b.rank ? b : a;
  const auto listed = [&](const PeerInfo& peer) {
    auto transports = choose_transports(peer.transports);
    return transports.ok() ? std::move(*transports) : *allowed;
  };
  return first_of(listed(lower), listed(upper), a, b);
}

void MeshRank::choose_transports_for_peers() {
  transports_.clear();
  for (const PeerInfo& other : peers_) transports_.push_back(transport_between(peer(rank_), other));
}

std::string_view MeshRank::transport_name(int32_t peer) const {
  const Transport* transport = transports_[static_cast<size_t>(peer)];
  return transport == nullptr ? "none" : transport->name();
}

Receiver* MeshRank::receiver(PipeClass pipe_class, int32_t peer, int lane) {
  return failed() ? nullptr : pipes_.receiver({pipe_class, peer, lane});
}

Sender* MeshRank::sender(PipeClass pipe_class, int32_t peer, int lane) {
  if (failed()) return nullptr;
  const PipeName name{pipe_class, peer, lane};
  bool must_open = false;
  Sender* ready = pipes_.sender(name, &must_open);
  if (!must_open) return ready;
  open_pipe(name);
  return pipes_.find_sender(name);
}

void MeshRank::open_pipe(const PipeName& name) {
  const Transport* transport = transports_[static_cast<size_t>(name.peer)];
  if (transport == nullptr) {
    return fail(
        Status(Code::kInvalidUsage,
               fmt::format("no transport reaches rank {} on {} from rank {}: HOCKET_TRANSPORTS allows '{}' here "
                           "and '{}' there",
                           name.peer, peer(name.peer).host_name, rank_, service_.options().transports,
                           peer(name.peer).transports)));
  }
  Status status;
  switch (transport->carrier()) {
    case Transport::Carrier::kObject:
      status = offer_object(name, *transport);
      break;
    case Transport::Carrier::kHandles:
      status = offer_handles(name, *transport);
      break;
    case Transport::Carrier::kSocket:
      service_.reactor().post(
          [self = shared_from_this(), name, number = number_of(*transport)] { self->dial_pipe(name, number); });
      break;
  }
  if (!status.ok()) fail(status);
}

Status MeshRank::offer_object(const PipeName& name, const Transport& transport) {
  const std::shared_ptr<MeshRank> sibling = rank_here(name.peer);
  if (sibling == nullptr || !sibling->complete()) {  // its thread has not opened it yet: come back
    pipes_.abandon(name);
    return {};
  }
  Offer offer;
  Result<std::unique_ptr<Sender>> sender = transport.open(context_for(name, transport, sibling->poller_), offer);
  if (!sender.ok()) return sender.status();
  PipeName from = name;
  from.peer = rank_;
  HOCKET_TRY(sibling->accept_pipe(from, transport, std::move(offer), poller_));
  pipes_.put(name, std::move(*sender));
  return {};
}

Status MeshRank::offer_handles(const PipeName& name, const Transport& transport) {
  Offer offer;
  Result<std::unique_ptr<Sender>> sender = transport.open(context_for(name, transport, nullptr), offer);
  if (!sender.ok()) return sender.status();
  pipes_.put(name, std::move(*sender));
  // The handles live as long as the sender, which lives until the links are closed.
  service_.reactor().post([self = shared_from_this(), name, handles = offer.handles, number = number_of(transport)] {
    if (!self->said_farewell_) self->links_.send(name.peer, offer_message(name, number), handles);
  });
  return {};
}

void MeshRank::dial_pipe(const PipeName& name, uint8_t transport) {
  if (said_farewell_ || pipe_dials_.contains(name)) return;
  const auto sending = stream(name, PipeEnd::kSender);
  if (sending == nullptr && pipes_.find_sender(name) != nullptr) return;  // the peer's connection came first
  Hello hello{
      Purpose::kData, id_, rank_, name.peer, static_cast<uint8_t>(name.pipe_class), static_cast<uint16_t>(name.lane),
      transport};
  if (sending != nullptr) hello.connection = static_cast<uint16_t>(sending->connection() + 1);
  DialOptions options = links_.dial_options(name.peer, std::move(hello));
  options.on_silence = [this, peer = name.peer] { links_.open(peer); };  // a link learns whether the peer lives
  pipe_dials_[name] = std::make_unique<Dial>(
      service_, std::move(options), [this, name, transport](Result<std::unique_ptr<Socket>> socket, Refusal refusal) {
        on_pipe_dialled(name, transport, std::move(socket), refusal);
      });
}

void MeshRank::on_pipe_dialled(const PipeName& name, uint8_t transport, Result<std::unique_ptr<Socket>> socket,
                               Refusal refusal) {
  const std::unique_ptr<Dial> dial = std::move(pipe_dials_[name]);  // outlives this call
  pipe_dials_.erase(name);
  const Transport& chosen = *transport_of(transport);
  const bool theirs_stays = refusal == Refusal::kDuplicate && chosen.is_two_way() && rank_ > name.peer;
  if (!socket.ok() && theirs_stays) return;  // it is on its way
  if (!socket.ok()) return on_unreachable(name.peer, refusal, socket.status());
  const auto sending = stream(name, PipeEnd::kSender);
  if (sending != nullptr) return replace(name, *sending, std::move(*socket));
  const Status opened = open_ends(name, PipeEnd::kSender, chosen, std::move(*socket));
  if (!opened.ok()) fail(opened);
}

// A first connection: of the pipe, and of its lane's other one where it carries both.
Status MeshRank::open_ends(const PipeName& name, PipeEnd end, const Transport& transport,
                           std::unique_ptr<Socket> socket) {
  Offer offer;
  offer.socket = lasting(name, end, std::move(socket));
  if (end == PipeEnd::kReceiver || transport.is_two_way()) HOCKET_TRY(accept_pipe(name, transport, offer, nullptr));
  if (end == PipeEnd::kSender || transport.is_two_way()) HOCKET_TRY(open_sender(name, transport, offer));
  return {};
}

Status MeshRank::open_sender(const PipeName& name, const Transport& transport, Offer offer) {
  Result<std::unique_ptr<Sender>> sender = transport.open(context_for(name, transport, nullptr), offer);
  if (!sender.ok()) return sender.status();
  if (!pipes_.put(name, std::move(*sender))) return opened_twice(name.peer, name.lane, rank_);
  poller_->wake();
  return {};
}

void MeshRank::accept_later(const PipeName& name, uint8_t transport, Offer offer) {
  when_complete([this, name, transport, offer = std::move(offer)] {
    const Status accepted = accept_pipe(name, *transport_of(transport), offer, nullptr);
    if (!accepted.ok()) fail(accepted);
  });
}

Status MeshRank::accept_pipe(const PipeName& name, const Transport& transport, Offer offer,
                             const std::shared_ptr<Poller>& peer_poller) {
  Result<std::unique_ptr<Receiver>> receiver =
      transport.accept(context_for(name, transport, peer_poller), std::move(offer));
  if (!receiver.ok()) return receiver.status();
  if (!pipes_.put(name, std::move(*receiver))) return opened_twice(name.peer, name.lane, rank_);
  poller_->wake();
  return {};
}

PipeContext MeshRank::context_for(const PipeName& name, const Transport& transport,
                                  const std::shared_ptr<Poller>& peer_poller) {
  PipeContext context{service_.system(), *poller_, {}, max_message_, {}};
  const int32_t peer = name.peer;
  context.ties = pipes_.ties(name, transport);
  context.shares_cores = shares_cores_;
  context.budget = slice_budget_;
  context.checksum = is_far(peer) && service_.options().checksum;
  context.peer = fmt::format("rank {} on {}", peer, peers_[static_cast<size_t>(peer)].host_name);
  if (peer_poller != nullptr) {
    context.wake_peer = [peer_poller] { peer_poller->wake(); };
  } else if (transport.carrier() == Transport::Carrier::kHandles) {
    context.wake_peer = [waker = waker_of(peer)] { waker->wake(); };
  } else {
    context.wake_peer = [] {};
  }
  return context;
}

std::shared_ptr<PeerWaker> MeshRank::waker_of(int32_t peer) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<PeerWaker>& waker = wakers_[peer];
  if (waker == nullptr) waker = std::make_shared<PeerWaker>(service_.system().network);
  return waker;
}

Refusal MeshRank::decide(const Hello& hello) {
  if (hello.from < 0 || hello.from >= ranks_ || hello.from == rank_) return Refusal::kNotAllowed;
  if (said_farewell_) return Refusal::kClosed;
  if (hello.purpose == Purpose::kLink) return links_.decide(hello.from, hello.connection > 0);
  const PipeName name{static_cast<PipeClass>(hello.pipe_class), hello.from, hello.lane};
  const Transport* transport = transport_of(hello.transport);
  const bool can_be = hello.purpose == Purpose::kData && is_pipe(name) && transport != nullptr &&
                      transport->carrier() == Transport::Carrier::kSocket;
  if (!can_be) return Refusal::kNotAllowed;
  if (stream(name, PipeEnd::kReceiver) != nullptr) return Refusal::kNone;  // it goes on
  const bool ours_stays = transport->is_two_way() && pipe_dials_.contains(name) && rank_ < hello.from;
  return ours_stays || pipes_.receiver(name) != nullptr ? Refusal::kDuplicate : Refusal::kNone;
}

void MeshRank::enter(const Hello& hello, std::unique_ptr<Socket> socket) {
  if (hello.purpose == Purpose::kLink) return links_.enter(hello.from, hello.connection > 0, std::move(socket));
  const PipeName name{static_cast<PipeClass>(hello.pipe_class), hello.from, hello.lane};
  if (stream(name, PipeEnd::kReceiver) != nullptr)
    return go_on(name, PipeEnd::kReceiver, std::move(socket), hello.connection);
  const Transport& transport = *transport_of(hello.transport);
  if (transport.is_two_way()) pipe_dials_.erase(name);
  when_complete([this, name, &transport, connection = hello.connection,
                 first = std::make_shared<std::unique_ptr<Socket>>(std::move(socket))] {
    // Lost and dialled again before we knew all ranks.
    if (stream(name, PipeEnd::kReceiver) != nullptr)
      return go_on(name, PipeEnd::kReceiver, std::move(*first), connection);
    const Status opened = open_ends(name, PipeEnd::kReceiver, transport, std::move(*first));
    if (!opened.ok()) fail(opened);
  });
}

}  // namespace hocket
