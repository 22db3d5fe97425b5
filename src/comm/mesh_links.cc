// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// When both ends dial, the lower rank's connection stays: the higher rank's is refused as a duplicate, and its dial is
// dropped when the lower rank's arrives. A link that falls silent is moved by who has dialled it, if the other's host
// has several interfaces: it may be the interface that is lost, not the peer.
#include "comm/mesh_links.h"

#include <algorithm>

#include "comm/mesh_wire.h"
#include "comm/service_interfaces.h"

namespace hocket {
namespace {

constexpr size_t kFrameBase = size_t{64} << 10;
constexpr Duration kSiblingPause = std::chrono::milliseconds(2);

bool has_spares(const Service& service) { return interface_count(service.self().interfaces) > 1; }

std::string_view host_of(std::string_view address) { return address.substr(0, address.rfind(':')); }

}  // namespace

PeerLinks::PeerLinks(Service& service, Membership self, Owner& owner)
    : service_(service), self_(std::move(self)), owner_(owner) {}

bool PeerLinks::in_this_process(int32_t peer) const {
  return owner_.peer_info(peer).process == service_.self().process;
}

bool PeerLinks::on_this_host(int32_t peer) const {
  return owner_.peer_info(peer).host_identity == service_.self().host_identity;
}

PeerLinks::Entry& PeerLinks::entry(int32_t peer) {
  const auto [found, is_new] = entries_.try_emplace(peer);
  if (is_new && !in_this_process(peer)) dial(peer, found->second);
  return found->second;
}

void PeerLinks::expect(int32_t peer) {
  const auto found = entries_.find(peer);
  const bool is_linked = found != entries_.end() && found->second.link != nullptr;
  if (!is_linked && !in_this_process(peer)) expected_.insert(peer);
}

bool PeerLinks::has_several_ways(int32_t peer) const {
  return has_spares(service_) && interface_count(owner_.peer_info(peer).interfaces) > 1 && !on_this_host(peer);
}

// The address of the peer behind which the other end of its link is.
size_t PeerLinks::way_of(int32_t peer, const Link& link) const {
  const std::vector<Address>& all = owner_.peer_info(peer).addresses;
  const std::string name = link.peer_name();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Address& each) { return host_of(each) == host_of(name); });
  return found == all.end() ? 0 : static_cast<size_t>(found - all.begin());
}

// All addresses, those behind the interface of this one last.
std::vector<Address> PeerLinks::other_ways(int32_t peer, size_t way) const {
  const PeerInfo& info = owner_.peer_info(peer);
  std::vector<Address> others, same;
  for (size_t i = 0; i < info.addresses.size(); ++i)
    (info.interfaces[i] == info.interfaces[way] ? same : others).push_back(info.addresses[i]);
  others.insert(others.end(), same.begin(), same.end());
  return others;
}

std::vector<Address> PeerLinks::addresses(int32_t peer) const {
  std::vector<Address> all = owner_.peer_info(peer).addresses;
  const auto found = entries_.find(peer);
  if (found != entries_.end() && found->second.link != nullptr) {
    const auto way = static_cast<ptrdiff_t>(way_of(peer, *found->second.link));
    std::rotate(all.begin(), all.begin() + way, all.end());
  }
  return all;
}

DialOptions PeerLinks::dial_options(int32_t peer, Hello hello) const {
  const Time now = service_.system().clock.now();
  DialOptions options;
  options.addresses = addresses(peer);
  options.hello = std::move(hello);
  options.key = self_.key;
  // The peer's process was there: when nothing answers, it is gone. The wait lets its neighbours tell how it went.
  options.unreachable_until = now + service_.options().timeout;
  options.unknown_until = now + self_.operation_timeout;
  options.is_lost = [this, peer] { return owner_.is_lost_to_parent(peer); };
  return options;
}

void PeerLinks::dial(int32_t peer, Entry& entry) {
  DialOptions options = dial_options(peer, {Purpose::kLink, self_.id, self_.rank, peer});
  if (on_this_host(peer)) {
    options.addresses = {owner_.peer_info(peer).local_address};
    options.is_here = true;
  }
  options.several = true;
  entry.dial = std::make_unique<Dial>(service_, std::move(options),
                                      [this, peer](Result<std::unique_ptr<Socket>> socket, Refusal refusal) {
                                        entries_[peer].dial.reset();
                                        if (socket.ok()) return connect(peer, true, std::move(*socket));
                                        if (refusal == Refusal::kDuplicate) return expect_link(peer);
                                        owner_.on_unreachable(peer, refusal, socket.status());
                                      });
}

// The peer's own connection is on its way, unless the peer dies or stops meanwhile: without a link nobody would notice.
void PeerLinks::expect_link(int32_t peer) {
  const Time later = service_.system().clock.now() + service_.look();
  service_.reactor().at(later, [this, peer, owner = owner_.shared_owner()] {
    const auto found = entries_.find(peer);
    if (found != entries_.end() && found->second.link == nullptr && found->second.dial == nullptr)
      dial(peer, found->second);
  });
}

void PeerLinks::send(int32_t peer, const std::string& frame, std::vector<Handle> handles) {
  Entry& found = entry(peer);
  if (found.link != nullptr) return found.link->send(frame, std::move(handles));
  // Handles change owners only on a socket, so two ranks of one process get one when they want to pass any.
  if (!handles.empty() && found.dial == nullptr && in_this_process(peer)) dial(peer, found);
  if (found.dial == nullptr && in_this_process(peer) && found.waiting.empty() && owner_.sibling(peer) != nullptr)
    return deliver_here(peer, frame);
  found.waiting.push_back({frame, std::move(handles)});
  if (found.dial == nullptr && in_this_process(peer) && found.waiting.size() == 1) {
    deliver_waiting(peer, service_.system().clock.now() + self_.operation_timeout);
  }
}

void PeerLinks::beat(int32_t peer) {
  const auto found = entries_.find(peer);
  if (found != entries_.end() && found->second.link != nullptr) found->second.link->beat();
}

void PeerLinks::send_to_all(const std::string& frame) {
  std::vector<int32_t> peers;
  for (const auto& [peer, found] : entries_) peers.push_back(peer);
  for (const int32_t peer : peers) send(peer, frame);
}

void PeerLinks::send_to_connected(const std::string& frame) {
  for (const auto& [peer, found] : entries_) {
    if (found.link != nullptr) found.link->send(frame);
  }
}

void PeerLinks::deliver_here(int32_t peer, const std::string& frame) {
  service_.reactor().post([from = self_.rank, target = owner_.sibling(peer), frame] {
    if (target != nullptr) target->on_message(from, frame, {});
  });
}

// A sibling that has not opened its side yet is looked for again and again: it needs no more than its thread's turn.
void PeerLinks::deliver_waiting(int32_t peer, Time until) {
  const auto found = entries_.find(peer);
  if (found == entries_.end()) return;
  if (owner_.sibling(peer) != nullptr) {
    for (const Message& message : found->second.waiting) deliver_here(peer, message.frame);
    found->second.waiting.clear();
    return;
  }
  const Time now = service_.system().clock.now();
  const bool has_left = service_.was_closed(self_.id, peer);
  if (has_left || now >= until) {
    found->second.waiting.clear();
    const Refusal refusal = has_left ? Refusal::kClosed : Refusal::kUnknown;
    return owner_.on_unreachable(peer, refusal, Status(Code::kTimeout, "it has not opened its side"));
  }
  service_.reactor().at(now + kSiblingPause,
                        [this, peer, until, owner = owner_.shared_owner()] { deliver_waiting(peer, until); });
}

Refusal PeerLinks::decide(int32_t peer, bool is_move) const {
  const auto found = entries_.find(peer);
  if (is_move) {
    const bool is_there = found != entries_.end() && found->second.link != nullptr;
    const bool can_be = is_there && !found->second.dialled && has_spares(service_);
    return can_be ? Refusal::kNone : Refusal::kClosed;
  }
  if (found == entries_.end()) return Refusal::kNone;
  if (found->second.link != nullptr) return Refusal::kDuplicate;
  const bool ours_stays = found->second.dial != nullptr && self_.rank < peer;
  return ours_stays ? Refusal::kDuplicate : Refusal::kNone;
}

void PeerLinks::enter(int32_t peer, bool is_move, std::unique_ptr<Socket> socket) {
  if (is_move) {
    const auto found = entries_.find(peer);
    const bool is_there = found != entries_.end() && found->second.link != nullptr;  // it may have ended meanwhile
    return is_there ? move(peer, std::move(socket)) : void();
  }
  entries_[peer].dial.reset();
  connect(peer, false, std::move(socket));
}

// What comes of it matters little: the link ends when it stays silent.
void PeerLinks::on_quiet(int32_t peer) {
  Entry& found = entries_[peer];
  if (found.dial != nullptr || !found.dialled || !has_several_ways(peer)) return;
  const Duration left = service_.options().timeout / 2;
  DialOptions options;
  options.addresses = other_ways(peer, way_of(peer, *found.link));
  options.hello = {Purpose::kLink, self_.id, self_.rank, peer};
  options.hello.connection = 1;
  options.key = self_.key;
  options.unreachable_until = options.unknown_until = service_.system().clock.now() + left;
  found.dial = std::make_unique<Dial>(service_, std::move(options),
                                      [this, peer](Result<std::unique_ptr<Socket>> socket, Refusal) {
                                        const std::unique_ptr<Dial> dial = std::move(entries_[peer].dial);
                                        if (socket.ok()) move(peer, std::move(*socket));
                                      });
}

void PeerLinks::move(int32_t peer, std::unique_ptr<Socket> socket) {
  Link& link = *entries_[peer].link;
  const size_t from = way_of(peer, link);
  // A peer that was only stopped for a while takes what comes now, and acknowledges it in less than that.
  const bool is_lost = link.is_stuck_since(service_.system().clock.now() - service_.options().timeout / 4);
  const Status moved = link.move_to(std::move(socket));
  if (!moved.ok()) return on_end(peer, Link::End::kClosed, moved);
  owner_.on_link_moved(peer, from, way_of(peer, link), is_lost);
}

void PeerLinks::connect(int32_t peer, bool dialled, std::unique_ptr<Socket> socket) {
  expected_.erase(peer);
  Entry& found = entries_[peer];
  found.dialled = dialled;
  const size_t max_frame = kFrameBase + static_cast<size_t>(self_.ranks) * kMaxPeerBytes;
  found.link = std::make_unique<Link>(service_.link_context(), std::move(socket), max_frame);
  Link& link = *found.link;
  const Status started =
      link.start([this, peer](std::string_view frame,
                              std::vector<Handle> handles) { owner_.on_message(peer, frame, std::move(handles)); },
                 [this, peer](Link::End end, const Status& why) { on_end(peer, end, why); });
  if (!started.ok()) return on_end(peer, Link::End::kClosed, started);
  // What is known of the peer may be told over this link.
  if (has_spares(service_)) link.outlive_connections([this, peer] { on_quiet(peer); });
  owner_.on_link_up(peer);
  for (Message& message : found.waiting) link.send(std::move(message.frame), std::move(message.handles));
  found.waiting.clear();
}

void PeerLinks::on_end(int32_t peer, Link::End end, const Status& why) {
  const Status reason = why;  // `why` may live in the link
  // It may live and hear us: then it shall know that it is not the others who were lost.
  if (end == Link::End::kSilent) entries_[peer].link->send_last(plain_message(MessageType::kDismissal));
  entries_.erase(peer);
  owner_.on_link_lost(peer, end, reason);
}

std::vector<int32_t> PeerLinks::missing() const {
  std::set<int32_t> missing = expected_;
  for (const auto& [peer, found] : entries_) {
    if (found.link == nullptr) missing.insert(peer);
  }
  return {missing.begin(), missing.end()};
}

bool PeerLinks::flushed() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const auto& each) {
    return each.second.link == nullptr ? !holds_up(each.second) : each.second.link->flushed();
  });
}

bool PeerLinks::arrived() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const auto& each) {
    const Entry& found = each.second;
    if (found.dial != nullptr && found.dial->may_be_let_in()) return false;
    return found.link == nullptr ? !holds_up(found) : found.link->arrived();
  });
}

void PeerLinks::stop_dialling(int32_t peer) {
  expected_.erase(peer);
  const auto found = entries_.find(peer);
  if (found == entries_.end() || found->second.link != nullptr) return;
  if (!in_this_process(peer)) return (void)entries_.erase(found);
  found->second.is_given_up = true;
}

}  // namespace hocket
