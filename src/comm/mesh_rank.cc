// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Joining and leaving.
#include "comm/mesh_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/caught.h"
#include "base/log.h"
#include "choose/cut.h"
#include "comm/choosing.h"
#include "comm/crowd.h"

namespace hocket {
namespace {

constexpr Duration kLeaveTime = std::chrono::seconds(1);
constexpr Duration kFlushLook = std::chrono::milliseconds(1);

PeerInfo self_info(const Service& service, int32_t rank, const std::string& devices) {
  PeerInfo info = service.self();
  info.rank = rank;
  info.devices = devices;
  if (rank == 0) info.tuning = tuning_to_tell(service.options().tuning);
  return info;
}

}  // namespace

MeshRank::MeshRank(Service& service, std::unique_ptr<Poller> poller, const Membership& self)
    : service_(service),
      poller_(std::move(poller)),
      id_(self.id),
      key_(self.key),
      rank_(self.rank),
      ranks_(self.ranks),
      operation_timeout_(self.operation_timeout),
      context_(self.context),
      devices_(self.devices),
      peers_(static_cast<size_t>(ranks_)),
      left_(static_cast<size_t>(ranks_)),
      windows_(rank_, ranks_),
      peer_memory_(ranks_),
      doors_(
          service.system(), *poller_,
          [this](int32_t peer, const RemoteRequest& request) { return access(peer, request); },
          [this](int32_t peer) { return describe(peer); }),
      exchange_(rank_, ranks_, self_info(service, rank_, devices_)),
      links_(service, self, *this),
      agreement_(rank_, ranks_, [this] { return whereabouts(); }) {
  for (size_t i = 0; i < peers_.size(); ++i) peers_[i].rank = static_cast<int32_t>(i);
}

MeshRank::~MeshRank() { pipes_.clear(); }

void MeshRank::join(const UniqueId& id) {
  service_.reactor().post([self = shared_from_this(), id] {
    MeshRank& mesh = *self;
    const auto patience = std::chrono::ceil<std::chrono::milliseconds>(mesh.operation_timeout_);
    const CheckIn check_in{mesh.rank_, mesh.ranks_, patience, mesh.service_.told_timeout(),
                           self_info(mesh.service_, mesh.rank_, mesh.devices_)};
    mesh.visit_ = std::make_unique<RootVisit>(mesh.service_, id, check_in,
                                              [&mesh](const Result<std::vector<PeerInfo>>& neighbours) {
                                                const auto visit = std::move(mesh.visit_);  // outlives this call
                                                mesh.on_admitted(neighbours);
                                              });
    mesh.visit_->start();
  });
}

void MeshRank::on_admitted(const Result<std::vector<PeerInfo>>& neighbours) {
  if (!neighbours.ok()) {
    return conclude(neighbours.status());
  }
  for (const PeerInfo& info : *neighbours) {
    if (info.rank < 0 || info.rank >= ranks_)
      return on_misbehaviour(rank_, "the root told of a rank that does not exist");
    peers_[static_cast<size_t>(info.rank)] = info;
  }
  for (const int32_t ahead : ranks_ahead(rank_, ranks_)) links_.open(ahead);
  send_table(exchange_.start());
}

void MeshRank::send_table(const Result<std::vector<TableExchange::Outgoing>>& outgoing) {
  if (!outgoing.ok()) return on_misbehaviour(rank_, outgoing.status().message());
  for (const TableExchange::Outgoing& each : *outgoing) links_.send(each.to, each.frame);
  if (exchange_.complete() && !complete_) publish(exchange_.take_peers());
}

void MeshRank::open(std::vector<PeerInfo> peers, std::function<View()> doom, std::function<bool(int32_t)> is_lost) {
  publish(std::move(peers));
  doom_ = std::move(doom);
  is_lost_ = std::move(is_lost);
  service_.reactor().post([self = shared_from_this()] {
    const std::vector<int32_t> ahead = ranks_ahead(self->rank_, self->ranks_);
    for (const int32_t peer : ahead) self->links_.open(peer);
    for (const auto& neighbours : {ahead, ranks_behind(self->rank_, self->ranks_)}) {
      for (const int32_t peer : neighbours) self->links_.expect(peer);
    }
    if (self->doom_) self->watch_for_doom(kFlushLook);
  });
}

void MeshRank::publish(std::vector<PeerInfo> peers) {
  peers_ = std::move(peers);
  max_message_ = service_.options().max_message;
  for (const PeerInfo& peer : peers_) {
    if (peer.max_message != 0) max_message_ = std::min<size_t>(max_message_, peer.max_message);
  }
  const size_t pipe_memory = peers_.front().pipe_memory != 0 ? peers_.front().pipe_memory : default_pipe_memory(ranks_);
  const auto is_elsewhere = [&](const PeerInfo& peer) { return peer.host_identity != peers_.front().host_identity; };
  const size_t for_slices = hocket::slice_memory(pipe_memory, std::ranges::any_of(peers_, is_elsewhere));
  budget_ = std::make_shared<Budget>(pipe_memory);
  slice_budget_ = std::make_shared<Budget>(for_slices, budget_);
  stream_budget_ = std::make_shared<Budget>(pipe_memory - for_slices, budget_);
  shares_cores_ = crowd(*this, rank_).shares_cores();
  choose_transports_for_peers();
  reaches_devices_ = all_reach_devices();
  complete_ = true;
  poller_->wake();
  for (const auto& action : std::exchange(until_complete_, {})) action();
}

void MeshRank::when_complete(std::function<void()> action) {
  if (complete_) return action();
  until_complete_.push_back(std::move(action));
}

std::shared_ptr<MeshRank> MeshRank::rank_here(int32_t peer) const {
  return std::dynamic_pointer_cast<MeshRank>(service_.find_door(id_, peer));
}

std::string MeshRank::describe(int32_t peer) const {
  const PeerInfo& info = peers_[static_cast<size_t>(peer)];
  if (info.process == 0) return fmt::format("rank {}", peer);
  std::string ranks;
  int count = 0;
  for (const PeerInfo& other : peers_) {
    if (other.process != info.process || (other.rank != peer && has_left(other.rank))) continue;
    ranks += fmt::format("{}{}", count++ == 0 ? "" : ", ", other.rank);
  }
  return fmt::format("{} {} (process {} on {})", count == 1 ? "rank" : "ranks", ranks, info.pid, info.host_name);
}

void MeshRank::on_link_up(int32_t peer) {
  if (said_farewell_) return links_.send(peer, plain_message(MessageType::kFarewell));
  if (!is_far(peer)) {
    links_.send(peer, plain_message(MessageType::kGreeting), {poller_->wake_handle()});
  }
  if (agreement_.has_begun()) links_.send(peer, opinion_message(agreement_.opinion()));
}

void MeshRank::say_farewell() {
  // Who leaves before all are in leaves the others without what it had to pass on.
  if (!complete_ && !said_farewell_) conclude(Status(Code::kRemote, fmt::format("rank {} gave up joining", rank_)));
  tell_of_memory();
  if (spreading_) tell();
  if (said_farewell_.exchange(true)) return;
  visit_.reset();
  pipe_dials_.clear();
  // Whom the others have given up has not left: a farewell would take back what they are agreeing on, and they would
  // wait.
  if (agreement_.opinion().view.is_lost(rank_)) return;
  links_.send_to_connected(plain_message(MessageType::kFarewell));
  for (const auto& door : service_.doors_of(id_)) {
    const auto sibling = std::dynamic_pointer_cast<MeshRank>(door);
    if (sibling != nullptr && sibling.get() != this) sibling->note_left(rank_);
  }
}

// The farewell may be lost on its way, and the peer's next heartbeat would end a closed connection before it is sent
// again. When the communicator has failed, nobody waits for it.
bool MeshRank::flushed() const { return failed() ? links_.flushed() : links_.arrived(); }

void MeshRank::disown() {
  disowned_ = true;
  failed_ = true;
}

void MeshRank::shut() {
  if (!said_farewell_) say_farewell();
  visit_.reset();
  pipe_dials_.clear();
  links_.close();
  closed_ = true;
}

void MeshRank::leave() {
  if (!service_.in_its_process() || std::exchange(has_called_leave_, true)) return;
  windows_.shut();
  let_go_of_memory();
  doors_.shut();
  flush_pipes();
  if (service_.ready().ok()) leave_service();
  set_recorder(nullptr);
  set_whereabouts(nullptr);
  set_pace(nullptr);
  // Unless the links are closed, an offer with a pipe's handles may still wait to be sent.
  if (closed_) pipes_.clear();
}

// Who leaves cannot be told of an error: what lacks memory is tried again, or left.
void MeshRank::flush_pipes() {
  const Time limit = service_.system().clock.now() + service_.options().timeout;
  bool flushed = false;
  const auto flush = [&] { return flushed = pipes_.flush(), Status(); };
  while (!failed() && !(tried(flush).ok() && flushed) && service_.system().clock.now() < limit) wait_for(kFlushLook);
}

// The service may end at the same time: then nobody would tell us. A loss that keeps peers from a communicator which is
// being made of this one is known when this rank can wait for nobody's opinion any more; the caller need not wait.
void MeshRank::leave_service() {
  const System& system = service_.system();
  const Time now = system.clock.now();
  const Time limit = now + kLeaveTime;
  const auto post = [&] {
    service_.reactor().post([self = shared_from_this(), watched = now + patience()] {
      self->once(&MeshRank::unwatched, watched, &MeshRank::await_links);
    });
    return Status();
  };
  while (!tried(post).ok() && system.clock.now() < limit) system.threads.sleep_until(system.clock.now() + kFlushLook);
  while (!closed_ && system.clock.now() < limit + kLeaveTime) wait_for(kLeaveTime / 10);
}

void MeshRank::wait_for(Duration time) {
  (void)tried([&] { return poller_->wait(service_.system().clock.now() + time), Status(); });
}

// When it has come to be so, or at the limit, or now if there is no memory to look again.
void MeshRank::once(bool (MeshRank::*is_so)() const, Time limit, void (MeshRank::*then)()) {
  const Time now = service_.system().clock.now();
  const auto look_again = [&] {
    service_.reactor().at(now + kFlushLook,
                          [self = shared_from_this(), is_so, limit, then] { self->once(is_so, limit, then); });
    return Status();
  };
  if (!(this->*is_so)() && now < limit && tried(look_again).ok()) return;
  (this->*then)();
}

// Who is about to dial us would find nobody, if this process ends, and take us for dead.
void MeshRank::await_links() {
  once(&MeshRank::is_whole, service_.system().clock.now() + kLeaveTime, &MeshRank::begin_leaving);
}

// Whatever memory there is, all is closed: here, where it belongs. The parent waits for this one no more.
void MeshRank::begin_leaving() {
  doom_ = nullptr;
  (void)tried([&] { return say_farewell(), Status(); });
  said_farewell_ = true;
  (void)tried([&] { return service_.close_door(id_, rank_), Status(); });
  once(&MeshRank::flushed, service_.system().clock.now() + kLeaveTime, &MeshRank::finish_leaving);
}

void MeshRank::finish_leaving() {
  shut();
  poller_->wake();
}

}  // namespace hocket
