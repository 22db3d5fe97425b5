// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Check-ins are grouped by the number of ranks that they expect, so that one rank with a wrong number harms nobody.
#include "comm/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "comm/mesh_exchange.h"
#include "comm/unique_id.h"

namespace hocket {
namespace {

constexpr size_t kNamedRanks = 16;
constexpr size_t kMaxFrame = size_t{8} << 10;

std::string place_text(const PeerInfo& info) { return fmt::format("process {} on {}", info.pid, info.host_name); }

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Rendezvous::Rendezvous(Service& service, std::string key) : service_(service), key_(std::move(key)) {}

Refusal Rendezvous::decide(const Hello& hello) {
  return hello.purpose == Purpose::kCheckIn ? Refusal::kNone : Refusal::kNotAllowed;
}

void Rendezvous::enter(const Hello&, std::unique_ptr<Socket> socket) {
  const uint64_t number = ++last_link_;
  std::unique_ptr<Link>& link = links_[number];
  link = std::make_unique<Link>(service_.link_context(), std::move(socket), kMaxFrame);
  const auto guest = std::make_shared<Guest>(0);
  const auto drop = [this, number, guest] {
    if (*guest != 0) withdraw(*guest);
    links_.erase(number);
  };
  const Status started = link->start(
      [this, number, guest](std::string_view frame, const std::vector<Handle>& handles) {
        for (const Handle handle : handles) service_.system().network.close(handle);
        if (*guest != 0) return;  // one check-in per connection
        *guest = admit(frame, [this, number](const std::string& reply) {
          if (const auto found = links_.find(number); found != links_.end()) found->second->send(reply);
        });
      },
      [drop](Link::End, const Status&) { drop(); });
  if (!started.ok()) drop();
}

Rendezvous::Guest Rendezvous::admit(std::string_view frame, Reply reply) {
  CheckIn check_in;
  const Guest guest = ++last_guest_;
  if (!read_check_in(frame, &check_in)) {
    reply(refused_message(Status(Code::kRemote, "the root could not read the check-in")));
    return guest;
  }
  if (const Status no = objection(check_in); !no.ok()) {
    log_warn("refused {}: {}", place_text(check_in.info), no.message());
    reply(refused_message(no));
    return guest;
  }
  Group& group = groups_[check_in.ranks];
  group[check_in.rank] = {guest, check_in.info, std::move(reply)};
  if (static_cast<int32_t>(group.size()) == check_in.ranks) {
    complete(check_in.ranks);
  } else if (!waiting_) {
    waiting_ = true;
    deadline_ = service_.reactor().at(service_.system().clock.now() + service_.options().operation_timeout,
                                      [weak = weak_from_this()] {
                                        if (const auto self = weak.lock()) self->give_up();
                                      });
  }
  return guest;
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

void Rendezvous::withdraw(Guest guest) {
  for (auto& [ranks, group] : groups_) {
    const auto place =
        std::find_if(group.begin(), group.end(), [&](const auto& each) { return each.second.guest == guest; });
    if (place == group.end()) continue;
    log_info("rank {} of {} ({}) left the root before all had come", place->first, ranks,
             place_text(place->second.info));
    group.erase(place);
    return;
  }
}

void Rendezvous::complete(int32_t ranks) {
  const Group group = std::move(groups_[ranks]);
  groups_.erase(ranks);
  refuse_all(
      [&](int32_t rank, int32_t expected) {
        return fmt::format("rank {} expects {} ranks, but the communicator has started with {}", rank, expected, ranks);
      },
      Code::kInvalidUsage);
  for (const auto& [rank, place] : group) {
    std::vector<PeerInfo> neighbours;
    for (const int32_t ahead : ranks_ahead(rank, ranks)) neighbours.push_back(group.at(ahead).info);
    place.reply(admitted_message(neighbours));
  }
  finish(fmt::format("all {} ranks of the communicator have come already", ranks));
}

void Rendezvous::give_up() {
  waiting_ = false;
  if (!afterword_.empty()) return;
  const std::string text = missing_text();
  refuse_all([&](int32_t, int32_t) { return text; }, Code::kTimeout);
  finish(text);
}

// "ranks 3, 5 of 8 did not join within 600 s (HOCKET_OPERATION_TIMEOUT)", for each group.
std::string Rendezvous::missing_text() const {
  std::string text;
  for (const auto& [ranks, group] : groups_) {
    if (group.empty()) continue;
    std::string names;
    size_t missing = 0;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (group.contains(rank)) continue;
      if (++missing <= kNamedRanks) names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
    }
    if (missing > kNamedRanks) names += fmt::format(" and {} more", missing - kNamedRanks);
    text += fmt::format("{}rank{} {} of {}", text.empty() ? "" : "; ", missing == 1 ? "" : "s", names, ranks);
  }
  return fmt::format("{} did not join within {:g} s (HOCKET_OPERATION_TIMEOUT)", text,
                     seconds(service_.options().operation_timeout));
}

void Rendezvous::refuse_all(const std::function<std::string(int32_t, int32_t)>& text, Code code) {
  for (const auto& [ranks, group] : groups_) {
    for (const auto& [rank, place] : group) {
      log_warn("refused {}: {}", place_text(place.info), text(rank, ranks));
      place.reply(refused_message(Status(code, text(rank, ranks))));
    }
  }
  groups_.clear();
}

void Rendezvous::shut() {
  groups_.clear();
  links_.clear();
}

void Rendezvous::finish(std::string afterword) {
  afterword_ = std::move(afterword);
  if (waiting_) service_.reactor().cancel(deadline_);
  waiting_ = false;
  service_.retire_root(public_id_of(key_));
}

Status open_root(Service& service, const std::string& key) {
  return service.open_door(public_id_of(key), kRoot, std::make_shared<Rendezvous>(service, key));
}

}  // namespace hocket
