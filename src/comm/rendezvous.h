// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The root of a communicator: where its ranks check in. When all of one number of ranks have come it tells each of them
// the few peers that it has to dial; whoever does not fit hears why, and the others go on. Service thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "comm/links.h"
#include "comm/mesh_wire.h"
#include "comm/service.h"

namespace hocket {

// Who has died or was stopped on its way cannot be told from who starts late, neither by a root nor by its guests: both
// tell whom they wait for, more and more seldom.
inline constexpr Duration kFirstComplaint = std::chrono::seconds(5);
inline constexpr Duration kRarestComplaint = std::chrono::minutes(1);

class Rendezvous final : public Door, public std::enable_shared_from_this<Rendezvous> {
 public:
  using Reply = std::function<void(const std::string& frame)>;
  using Guest = uint64_t;

  Rendezvous(Service& service, std::string key);

  std::string key() const override { return key_; }
  Refusal decide(const Hello& hello) override;
  void enter(const Hello& hello, std::unique_ptr<Socket> socket) override;
  void look_round() override;
  void fail_without_memory() noexcept override { lacks_memory_ = true; }
  void shut() override;

  // Whoever checks in, from a socket or from this process. The reply comes once, perhaps at once.
  Guest admit(const CheckIn& check_in, Reply reply);
  // The guest has its reply, died or lost its patience: its place is free, for a while, for another.
  void withdraw(Guest guest);

 private:
  struct Place {
    Guest guest = 0;
    PeerInfo info;
    Reply reply;
    std::chrono::microseconds timeout{};
  };
  using Group = std::map<int32_t, Place>;  // by rank

  Guest on_check_in(uint64_t link, std::string_view frame);
  // Guests beat, and give us up, by a HOCKET_TIMEOUT of their own.
  void live_by(uint64_t link, Duration timeout);
  void beat(uint64_t link, Duration pause);
  TimerId after(Duration delay, std::function<void(Rendezvous&)> action);
  Status objection(const CheckIn& check_in) const;
  Status difference(const CheckIn& check_in) const;
  // A rank whose connection fell silent, by another interface: it keeps its place, or hears its reply once more.
  bool comes_again(const CheckIn& check_in, Guest guest, const Reply& reply);
  void tell_neighbours(int32_t rank, const Place& place);
  void complete(int32_t ranks);
  void wait_at_most(std::chrono::milliseconds patience);
  void stop_waiting();
  void complain_later(Duration pause);
  void give_up(std::chrono::milliseconds patience);
  // Unless another has taken the place by then.
  void give_up_later(int32_t ranks, int32_t rank, const Status& why);
  void refuse(const Place& place, const Status& why) const;
  void settle_numbers();
  int32_t likeliest_number() const;
  // "ranks 0, 1 expect 4 ranks".
  std::string expectation(int32_t ranks) const;
  // "ranks 3, 5 of 8", for each group.
  std::string missing_text() const;
  void refuse_group(int32_t ranks, const Status& why);
  void finish(std::string afterword);

  Service& service_;
  const std::string key_;
  Guest last_guest_ = 0;
  std::map<int32_t, Group> groups_;  // by the number of ranks that they expect
  Group admitted_;                   // until all of them have heard it
  std::set<Guest> unheard_;          // who has not
  std::map<uint64_t, std::unique_ptr<Link>> links_;
  uint64_t last_link_ = 0;
  TimerId deadline_{};         // the earliest that a guest has brought ...
  Time limit_ = Time::max();   // ... and when that is
  TimerId complaint_{};        // while somebody waits
  bool settling_ = false;      // ranks expect different numbers; soon the likeliest one counts
  uint64_t unknown_before_;    // guests of other communicators that this process has seen
  bool lacks_memory_ = false;  // and nobody has been told
  std::string afterword_;      // what late guests hear; empty while the root works
};

// Makes the root for `key` on this service.
Status open_root(Service& service, const std::string& key);

}  // namespace hocket
