// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Check-ins are grouped by the number of ranks that they expect, so that one rank with a wrong number harms nobody.
#include "comm/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "comm/links_heart.h"
#include "comm/mesh_exchange.h"
#include "comm/unique_id.h"

namespace hocket {
namespace {

using std::chrono::milliseconds;

constexpr size_t kNamedRanks = 16;
constexpr Duration kShortestPause = milliseconds(1);
constexpr size_t kMaxFrame = size_t{8} << 10;

std::string place_text(const PeerInfo& info) { return fmt::format("process {} on {}", info.pid, info.host_name); }

// "rank 3", "ranks 1, 2".
std::string ranks_text(const std::vector<int32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < std::min(ranks.size(), kNamedRanks); ++i) {
    text += fmt::format("{}{}", i == 0 ? " " : ", ", ranks[i]);
  }
  if (ranks.size() > kNamedRanks) text += fmt::format(" and {} more", ranks.size() - kNamedRanks);
  return text;
}

}  // namespace

Rendezvous::Rendezvous(Service& service, std::string key)
    : service_(service), key_(std::move(key)), unknown_before_(service.unknown_guests()) {}

Refusal Rendezvous::decide(const Hello& hello) {
  return hello.purpose == Purpose::kCheckIn ? Refusal::kNone : Refusal::kNotAllowed;
}

void Rendezvous::enter(const Hello&, std::unique_ptr<Socket> socket) {
  const uint64_t number = ++last_link_;
  std::unique_ptr<Link>& link = links_[number];
  link = std::make_unique<Link>(service_.link_context(), std::move(socket), kMaxFrame);
  const auto guest = std::make_shared<Guest>(0);
  const auto drop = [this, number, guest](Link::End how) {
    // Who is silent may not have got its reply, and come once more.
    const bool awaits_reply = how == Link::End::kSilent && unheard_.contains(*guest);
    if (*guest != 0 && !awaits_reply) withdraw(*guest);
    links_.erase(number);
  };
  const Status started = link->start(
      [this, number, guest](std::string_view frame, const std::vector<Handle>& handles) {
        for (const Handle handle : handles) service_.system().network.close(handle);
        if (*guest == 0) *guest = on_check_in(number, frame);  // one per connection
      },
      [drop](Link::End how, const Status&) { drop(how); });
  if (!started.ok()) drop(Link::End::kClosed);
}

Rendezvous::Guest Rendezvous::on_check_in(uint64_t link, std::string_view frame) {
  const Reply reply = [this, link](const std::string& text) {
    if (const auto found = links_.find(link); found != links_.end()) found->second->send(text);
  };
  CheckIn check_in;
  if (!read_check_in(frame, &check_in)) {
    reply(refused_message(Status(Code::kRemote, "the root could not read the check-in")));
    return ++last_guest_;
  }
  live_by(link, check_in.timeout);
  return admit(check_in, reply);
}

void Rendezvous::live_by(uint64_t link, Duration timeout) {
  links_.at(link)->be_patient(timeout);
  if (timeout < service_.options().timeout) beat(link, std::max(timeout / kBeatsPerTimeout, kShortestPause));
}

void Rendezvous::beat(uint64_t link, Duration pause) {
  const auto found = links_.find(link);
  if (found == links_.end()) return;
  found->second->beat();
  after(pause, [link, pause](Rendezvous& self) { self.beat(link, pause); });
}

Rendezvous::Guest Rendezvous::admit(const CheckIn& check_in, Reply reply) {
  const Guest guest = ++last_guest_;
  if (comes_again(check_in, guest, reply)) return guest;
  Place place{guest, check_in.info, std::move(reply), check_in.timeout};
  if (const Status no = objection(check_in); !no.ok()) {
    refuse(place, no);
    return guest;
  }
  if (const Status no = difference(check_in); !no.ok()) {
    refuse(place, no);
    give_up_later(check_in.ranks, check_in.rank, no);
    return guest;
  }
  Group& group = groups_[check_in.ranks];
  group[check_in.rank] = std::move(place);
  if (static_cast<int32_t>(group.size()) == check_in.ranks) {
    complete(check_in.ranks);
    return guest;
  }
  wait_at_most(check_in.patience);
  if (groups_.size() > 1 && !std::exchange(settling_, true)) {
    after(service_.options().timeout, [](Rendezvous& self) { self.settle_numbers(); });
  }
  return guest;
}

bool Rendezvous::comes_again(const CheckIn& check_in, Guest guest, const Reply& reply) {
  const bool is_admitted = static_cast<int32_t>(admitted_.size()) == check_in.ranks;
  const auto waiting = groups_.find(check_in.ranks);
  if (!is_admitted && waiting == groups_.end()) return false;
  Group& group = is_admitted ? admitted_ : waiting->second;
  const auto place = group.find(check_in.rank);
  if (place == group.end() || place->second.info.process != check_in.info.process) return false;
  const Guest before = std::exchange(place->second.guest, guest);
  place->second.reply = reply;
  if (is_admitted) {
    unheard_.erase(before);
    tell_neighbours(place->first, place->second);
  }
  return true;
}

// The least patient decides: the others cannot start without it.
void Rendezvous::wait_at_most(milliseconds patience) {
  const Time limit = service_.system().clock.now() + patience;
  if (limit >= limit_) return;
  if (limit_ == Time::max()) complain_later(kFirstComplaint);
  service_.reactor().cancel(deadline_);
  limit_ = limit;
  deadline_ = after(patience, [patience](Rendezvous& self) { self.give_up(patience); });
}

void Rendezvous::stop_waiting() {
  service_.reactor().cancel(deadline_);
  service_.reactor().cancel(complaint_);
  limit_ = Time::max();
}

void Rendezvous::complain_later(Duration pause) {
  complaint_ = after(pause, [pause](Rendezvous& self) {
    log_warn("{} did not join yet: the others wait for {:.0f} s more at the most", self.missing_text(),
             seconds(self.limit_ - self.service_.system().clock.now()));
    self.complain_later(std::min(2 * pause, kRarestComplaint));
  });
}

TimerId Rendezvous::after(Duration delay, std::function<void(Rendezvous&)> action) {
  return service_.reactor().at(service_.system().clock.now() + delay,
                               [weak = weak_from_this(), action = std::move(action)] {
                                 if (const auto self = weak.lock()) action(*self);
                               });
}

Status Rendezvous::objection(const CheckIn& check_in) const {
  const int32_t rank = check_in.rank;
  const int32_t ranks = check_in.ranks;
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) {
    return {Code::kInvalidArgument, fmt::format("there is no rank {} of {}", rank, ranks)};
  }
  if (!afterword_.empty()) {
    return {Code::kInvalidUsage, fmt::format("rank {} of {} came to a closed root: {}", rank, ranks, afterword_)};
  }
  const auto group = groups_.find(ranks);
  if (group == groups_.end()) return {};
  const auto place = group->second.find(rank);
  if (place == group->second.end()) return {};
  return {Code::kInvalidUsage, fmt::format("rank {} of {} came twice: {} has its place, {} is refused", rank, ranks,
                                           place_text(place->second.info), place_text(check_in.info))};
}

// Who waits less long than another rests between two heartbeats would give that one up. The root's own process may be
// no rank, and have no such setting: it lives by its guests'.
Status Rendezvous::difference(const CheckIn& check_in) const {
  const auto group = groups_.find(check_in.ranks);
  if (group == groups_.end()) return {};
  const auto& [other, place] = *group->second.begin();
  if (check_in.timeout == place.timeout) return {};
  return {Code::kInvalidUsage,
          fmt::format("rank {} ({}) has HOCKET_TIMEOUT={:g}s and rank {} ({}) {:g}s: it must be equal on all ranks",
                      check_in.rank, place_text(check_in.info), seconds(check_in.timeout), other,
                      place_text(place.info), seconds(place.timeout))};
}

void Rendezvous::withdraw(Guest guest) {
  if (unheard_.erase(guest) > 0) {
    if (unheard_.empty()) admitted_.clear();
    return;
  }
  for (auto& [expected, group] : groups_) {
    const auto place =
        std::find_if(group.begin(), group.end(), [&](const auto& each) { return each.second.guest == guest; });
    if (place == group.end()) continue;
    const int32_t ranks = expected;
    const int32_t rank = place->first;
    const std::string who = place_text(place->second.info);
    log_info("rank {} of {} ({}) left the root before all had come", rank, ranks, who);
    group.erase(place);
    if (group.empty()) {
      groups_.erase(ranks);
      if (groups_.empty()) stop_waiting();
    } else {
      give_up_later(
          ranks, rank,
          Status(Code::kRemote, fmt::format("rank {} ({}) was lost before all {} ranks had come", rank, who, ranks)));
    }
    return;
  }
}

// A rank that died or was refused is not waited for as long as one that has not come yet; its launcher may have started
// it again.
void Rendezvous::give_up_later(int32_t ranks, int32_t rank, const Status& why) {
  after(service_.options().timeout, [=](Rendezvous& self) {
    const auto group = self.groups_.find(ranks);
    if (group == self.groups_.end() || group->second.contains(rank)) return;
    self.refuse_group(ranks, why);
    if (self.groups_.empty()) self.finish(why.message());
  });
}

// Ranks that expect another number of ranks would make all others wait until the operation timeout.
void Rendezvous::settle_numbers() {
  settling_ = false;
  if (groups_.size() < 2) return;
  const int32_t likeliest = likeliest_number();
  std::vector<int32_t> others;
  for (const auto& [ranks, group] : groups_) {
    if (ranks != likeliest) others.push_back(ranks);
  }
  const Group& group = groups_.at(likeliest);
  for (const int32_t ranks : others) {
    const Status why(Code::kInvalidUsage, fmt::format("{}, but {}", expectation(ranks), expectation(likeliest)));
    for (const auto& [rank, place] : groups_.at(ranks)) {
      if (rank < likeliest && !group.contains(rank)) give_up_later(likeliest, rank, why);
    }
    refuse_group(ranks, why);
  }
}

// What most expect; among equals, what rank 0 does.
int32_t Rendezvous::likeliest_number() const {
  const auto weight = [](const auto& each) { return std::pair(each.second.size(), each.second.contains(0)); };
  return std::max_element(groups_.begin(), groups_.end(),
                          [&](const auto& left, const auto& right) { return weight(left) < weight(right); })
      ->first;
}

void Rendezvous::complete(int32_t ranks) {
  admitted_ = std::move(groups_[ranks]);
  groups_.erase(ranks);
  for (const auto& [rank, place] : admitted_) tell_neighbours(rank, place);
  while (!groups_.empty()) {
    const int32_t number = groups_.begin()->first;
    refuse_group(number, Status(Code::kInvalidUsage, fmt::format("{}, but the communicator has started with {}",
                                                                 expectation(number), ranks)));
  }
  finish(fmt::format("all {} ranks of the communicator have come already", ranks));
}

void Rendezvous::tell_neighbours(int32_t rank, const Place& place) {
  std::vector<PeerInfo> neighbours;
  for (const int32_t ahead : ranks_ahead(rank, static_cast<int32_t>(admitted_.size())))
    neighbours.push_back(admitted_.at(ahead).info);
  unheard_.insert(place.guest);
  place.reply(admitted_message(neighbours));
}

void Rendezvous::give_up(milliseconds patience) {
  const bool strangers_came = service_.unknown_guests() != unknown_before_;
  const std::string text =
      fmt::format("{} did not join within {:g} s (the operation timeout){}", missing_text(), seconds(patience),
                  strangers_came ? "; meanwhile somebody asked for another unique id, HOCKET_SECRET or job" : "");
  while (!groups_.empty()) refuse_group(groups_.begin()->first, Status(Code::kTimeout, text));
  finish(text);
}

std::string Rendezvous::expectation(int32_t ranks) const {
  std::vector<int32_t> members;
  for (const auto& [rank, place] : groups_.at(ranks)) members.push_back(rank);
  return fmt::format("{} expect{} {} ranks", ranks_text(members), members.size() == 1 ? "s" : "", ranks);
}

std::string Rendezvous::missing_text() const {
  std::string text;
  for (const auto& [ranks, group] : groups_) {
    std::vector<int32_t> missing;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (!group.contains(rank)) missing.push_back(rank);
    }
    text += fmt::format("{}{} of {}", text.empty() ? "" : "; ", ranks_text(missing), ranks);
  }
  return text;
}

void Rendezvous::refuse(const Place& place, const Status& why) const {
  // What this process hears it tells itself.
  if (place.info.process != service_.self().process) log_warn("refused {}: {}", place_text(place.info), why.message());
  place.reply(refused_message(why));
}

void Rendezvous::refuse_group(int32_t ranks, const Status& why) {
  const Group group = std::move(groups_[ranks]);
  groups_.erase(ranks);
  for (const auto& [rank, place] : group) refuse(place, why);
}

// Who has checked in may have been forgotten: it sees its connection close.
void Rendezvous::look_round() {
  if (!lacks_memory_) return;
  const Status why(Code::kSystem, "the process with the root is out of memory");
  while (!groups_.empty()) refuse_group(groups_.begin()->first, why);
  if (afterword_.empty()) finish(why.message());
  shut();
  lacks_memory_ = false;
}

void Rendezvous::shut() {
  groups_.clear();
  admitted_.clear();
  unheard_.clear();
  links_.clear();
}

void Rendezvous::finish(std::string afterword) {
  afterword_ = std::move(afterword);
  stop_waiting();
  service_.retire_root(public_id_of(key_));
}

Status open_root(Service& service, const std::string& key) {
  return service.open_door(public_id_of(key), kRoot, std::make_shared<Rendezvous>(service, key));
}

}  // namespace hocket
