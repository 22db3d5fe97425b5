// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All addresses are dialled at once: behind some of them may be somebody else, who is slow to show that he is no root.
#include "comm/rendezvous_guest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"

namespace hocket {
namespace {

constexpr size_t kFrameBase = size_t{16} << 10;
constexpr size_t kMaxNeighbours = 32;
constexpr const char* kNobodyThere =
    " (the process with the root has ended, or gave up because ranks have another unique id or HOCKET_SECRET?)";

}  // namespace

RootVisit::RootVisit(Service& service, UniqueId id, CheckIn check_in, Done done)
    : service_(service), id_(std::move(id)), check_in_(std::move(check_in)), done_(std::move(done)) {}

RootVisit::~RootVisit() {
  *alive_ = false;
  service_.reactor().cancel(complaint_);
  if (root_ != nullptr) root_->withdraw(guest_);
}

void RootVisit::start() {
  if (const auto root = std::dynamic_pointer_cast<Rendezvous>(service_.find_door(id_.public_id(), kRoot))) {
    return check_in_here(root);
  }
  const Duration time = id_.root_may_be_late ? check_in_.patience : service_.options().timeout;
  dial_all(service_.system().clock.now() + time);
}

void RootVisit::dial_all(Time until) {
  dials_.clear();
  failed_dials_ = 0;
  for (const Address& address : id_.addresses) dial(address, until);
  dialled_at_ = service_.system().clock.now();
  complain_later(kFirstComplaint);
}

void RootVisit::complain_later(Duration pause) {
  service_.reactor().cancel(complaint_);
  complaint_ = service_.reactor().at(service_.system().clock.now() + pause, [this, pause] {
    if (link_ != nullptr) return;
    std::vector<std::string_view> failures;
    for (const auto& dial : dials_) {
      if (!dial->last_failure().ok()) failures.emplace_back(dial->last_failure().message());
    }
    if (failures.empty()) failures.emplace_back("no answer");
    log_warn("rank {} has been looking for rank 0 at {} for {:.0f} s: {}", check_in_.rank,
             fmt::join(id_.addresses, ", "), seconds(service_.system().clock.now() - dialled_at_),
             fmt::join(failures, "; "));
    complain_later(std::min(2 * pause, kRarestComplaint));
  });
}

void RootVisit::check_in_here(const std::shared_ptr<Rendezvous>& root) {
  root_ = root;
  guest_ = root->admit(check_in_, [this, alive = alive_](const std::string& reply) {
    service_.reactor().post([this, alive, reply] {
      if (*alive) finish(read_reply(reply));
    });
  });
}

void RootVisit::dial(const Address& address, Time until) {
  DialOptions options;
  options.addresses = {address};
  options.hello = {Purpose::kCheckIn, id_.public_id(), check_in_.rank, kRoot};
  options.key = id_.key;
  options.unreachable_until = options.unknown_until = until;
  dials_.push_back(std::make_unique<Dial>(
      service_, std::move(options),
      [this](Result<std::unique_ptr<Socket>> socket, Refusal refusal) { on_dialled(std::move(socket), refusal); }));
}

void RootVisit::on_dialled(Result<std::unique_ptr<Socket>> socket, Refusal refusal) {
  if (socket.ok()) return check_in(std::move(*socket));
  if (failed_dials_++ == 0) first_failure_ = socket.status().message();
  // Behind a port that was only agreed upon may be another job with another key or version.
  const bool is_the_root = refusal == Refusal::kClosed || !id_.root_may_be_late;
  if (failed_dials_ < dials_.size() && !(is_the_root && refusal != Refusal::kNone)) return;
  const std::string& why = dials_.size() == 1 ? socket.status().message() : first_failure_;
  const char* hint = refusal == Refusal::kNone ? kNobodyThere : "";
  finish(Status(socket.status().code(),
                fmt::format("rank {} cannot check in with the root of the communicator at {}: {}{}", check_in_.rank,
                            fmt::join(id_.addresses, ", "), why, hint)));
}

void RootVisit::check_in(std::unique_ptr<Socket> socket) {
  if (link_ != nullptr) return;  // reached by two addresses
  const std::string root = socket->peer_name();
  link_ =
      std::make_unique<Link>(service_.link_context(), std::move(socket), kFrameBase + kMaxNeighbours * kMaxPeerBytes);
  const Status started = link_->start(
      [this](std::string_view frame, const std::vector<Handle>& handles) {
        for (const Handle handle : handles) service_.system().network.close(handle);
        finish(read_reply(frame));
      },
      [this, root](Link::End end, const Status& why) { on_link_end(end, root, why); });
  if (!started.ok()) return finish(started);
  link_->send(check_in_message(check_in_));
}

void RootVisit::on_link_end(Link::End end, const std::string& root, const Status& why) {
  const Status lost(Code::kRemote,
                    fmt::format("rank {} lost the root of the communicator at {} before all had come: {}",
                                check_in_.rank, root, why.message()));
  if (end != Link::End::kSilent || id_.addresses.size() == 1) return finish(lost);
  log_warn("{}; it is looked for at {}", lost.message(), fmt::join(id_.addresses, ", "));
  link_.reset();
  dial_all(service_.system().clock.now() + service_.options().timeout);
}

void RootVisit::finish(Result<std::vector<PeerInfo>> neighbours) {
  if (!done_) return;
  const Done done = std::move(done_);
  done_ = nullptr;
  done(std::move(neighbours));
}

}  // namespace hocket
