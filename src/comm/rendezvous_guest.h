// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One rank's visit to the root: finds it at one of its addresses (or in this process), checks in, hears the reply.
// Comes once more where the root falls silent and has several addresses: it may be an interface that is lost. Service
// thread only; destroying the visit withdraws the check-in.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh_wire.h"
#include "comm/rendezvous.h"
#include "comm/service_dial.h"
#include "comm/unique_id.h"

namespace hocket {

class RootVisit {
 public:
  // The peers to dial, or why we are not admitted.
  using Done = std::function<void(Result<std::vector<PeerInfo>> neighbours)>;

  RootVisit(Service& service, UniqueId id, CheckIn check_in, Done done);
  ~RootVisit();
  RootVisit(const RootVisit&) = delete;
  RootVisit& operator=(const RootVisit&) = delete;

  void start();

 private:
  void check_in_here(const std::shared_ptr<Rendezvous>& root);
  void dial_all(Time until);
  void dial(const Address& address, Time until);
  void complain_later(Duration pause);
  void on_dialled(Result<std::unique_ptr<Socket>> socket, Refusal refusal);
  void check_in(std::unique_ptr<Socket> socket);
  void on_link_end(Link::End end, const std::string& root, const Status& why);
  void finish(Result<std::vector<PeerInfo>> neighbours);

  Service& service_;
  const UniqueId id_;
  const CheckIn check_in_;
  Done done_;
  std::vector<std::unique_ptr<Dial>> dials_;  // to all addresses at once: the first that opens is the root
  Time dialled_at_{};
  TimerId complaint_{};
  size_t failed_dials_ = 0;
  std::string first_failure_;
  std::unique_ptr<Link> link_;
  std::shared_ptr<Rendezvous> root_;  // of this process
  Rendezvous::Guest guest_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace hocket
