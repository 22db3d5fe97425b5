// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Where strangers stand until they have proved a key: a bounded number of them, for a bounded time, at a bounded cost.
// One that fails is logged and closed; nobody else notices. Service thread, but for listen().
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <set>
#include <vector>

#include "base/reactor.h"
#include "comm/handshake.h"

namespace hocket {

class Service;

class Acceptor {
 public:
  explicit Acceptor(Service& service) : service_(service) {}
  ~Acceptor();

  // Any thread. Returns the address with the port that was bound.
  Result<Address> listen(const Address& address);
  // A door was opened: somebody may be waiting for it.
  void look_again();
  // News may have been lost: forgets who has proved nothing yet, and accepts who waits.
  void start_again();
  // Any thread. Grows when somebody wants to check in with a root that is not here (yet).
  uint64_t unknown_guests() const { return unknown_guests_; }

 private:
  struct Stranger {
    std::unique_ptr<AcceptingHandshake> handshake;
    TimerId deadline = 0;
    bool hurries = false;  // the deadline is that of a peer which waits for its communicator
  };
  using Strangers = std::list<Stranger>;  // oldest first

  void watch(std::shared_ptr<Listener> listener);
  void accept_all(Listener* listener);
  void forget_strangers();
  void receive(std::unique_ptr<Socket> socket, bool seals);
  void advance(Strangers::iterator stranger);
  void expect(Strangers::iterator stranger, Duration patience);
  void hurry(Strangers::iterator stranger);
  void expire(Strangers::iterator stranger);
  void dismiss(Strangers::iterator stranger, const std::string& why);
  std::optional<Admission> judge(const Hello& hello, bool seals);
  Refusal decide(const Hello& hello) const;

  Service& service_;
  std::vector<std::shared_ptr<Listener>> listeners_;
  Strangers strangers_;
  bool starved_ = false;  // of descriptors; logged once
  std::set<Refusal> warned_;
  std::atomic<uint64_t> unknown_guests_ = 0;
};

}  // namespace hocket
