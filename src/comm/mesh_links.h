// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The links of one rank of a communicator to its peers: dialled when first needed, accepted when a peer dials, one per
// pair even when both dial at once. Peers in the same process get their messages without a socket. Service thread only.
// Knows no message's meaning.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comm/links.h"
#include "comm/service.h"
#include "comm/service_dial.h"
#include "cuda/driver.h"

namespace hocket {

// One rank of a communicator.
struct Membership {
  std::string id;
  std::string key;
  int32_t rank = 0;
  int32_t ranks = 1;
  Duration operation_timeout{};  // for a live rank that does not come
  cuda::Context context = nullptr;
  std::string devices = {};
};

class PeerLinks {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual const PeerInfo& peer_info(int32_t peer) const = 0;
    virtual void on_link_up(int32_t peer) = 0;
    virtual void on_message(int32_t peer, std::string_view frame, std::vector<Handle> handles) = 0;
    // The interface behind the peer's address `from` is silent: the link goes on by `to`, and all else is to follow.
    // `is_lost`: not even the peer's system answers where the link was; else its process may only have been kept from
    // running.
    virtual void on_link_moved(int32_t peer, size_t from, size_t to, bool is_lost) = 0;
    virtual void on_link_lost(int32_t peer, Link::End end, const Status& why) = 0;
    virtual void on_unreachable(int32_t peer, Refusal refusal, const Status& why) = 0;
    // The rank of this communicator that lives in this process; null when it is not there (yet).
    virtual std::shared_ptr<Owner> sibling(int32_t peer) const = 0;
    // The communicator that this one is made of has lost it.
    virtual bool is_lost_to_parent(int32_t peer) const = 0;
    virtual std::shared_ptr<Owner> shared_owner() = 0;
  };

  PeerLinks(Service& service, Membership self, Owner& owner);

  // Makes sure that there is, or will be, a link.
  void open(int32_t peer) { (void)entry(peer); }
  // There is to be one to this peer of another process, whoever dials.
  void expect(int32_t peer);
  // Opens the link if needed; frames wait for it. Handles must live until flushed() or close().
  void send(int32_t peer, const std::string& frame, std::vector<Handle> handles = {});
  // A heartbeat at once, if there is a link.
  void beat(int32_t peer);
  // To every peer to which there is or will be a link.
  void send_to_all(const std::string& frame);
  // To peers that can hear it now.
  void send_to_connected(const std::string& frame);

  // How to dial a peer: over the network, by the address first by which its link goes.
  DialOptions dial_options(int32_t peer, Hello hello) const;

  Refusal decide(int32_t peer, bool is_move) const;
  void enter(int32_t peer, bool is_move, std::unique_ptr<Socket> socket);

  // To whom there is to be a link, and is none.
  std::vector<int32_t> missing() const;
  // All that were expected have been there, or are not to be waited for.
  bool is_whole() const { return expected_.empty(); }
  // Nothing waits to be sent, nor for a link.
  bool flushed() const;
  // And the peers' systems have it, and none has let us in whom we have not heard yet: it would miss a farewell.
  bool arrived() const;
  // Who has no link is dialled no more, and what waits for it goes nowhere. A thread of this process may yet come for
  // it, but nobody stays for that.
  void stop_dialling(int32_t peer);
  void close() { entries_.clear(); }

 private:
  struct Message {
    std::string frame;
    std::vector<Handle> handles;
  };
  struct Entry {
    std::unique_ptr<Link> link;
    bool dialled = false;  // by us, who know the peer's addresses: so we move it
    std::unique_ptr<Dial> dial;
    std::deque<Message> waiting;
    bool is_given_up = false;  // nobody stays until what waits is fetched
  };

  // Something waits for a link to it.
  static bool holds_up(const Entry& entry) { return !entry.waiting.empty() && !entry.is_given_up; }
  Entry& entry(int32_t peer);
  bool in_this_process(int32_t peer) const;
  bool on_this_host(int32_t peer) const;
  void dial(int32_t peer, Entry& entry);
  void expect_link(int32_t peer);
  void connect(int32_t peer, bool dialled, std::unique_ptr<Socket> socket);
  std::vector<Address> addresses(int32_t peer) const;
  bool has_several_ways(int32_t peer) const;
  size_t way_of(int32_t peer, const Link& link) const;
  std::vector<Address> other_ways(int32_t peer, size_t way) const;
  void on_quiet(int32_t peer);
  void move(int32_t peer, std::unique_ptr<Socket> socket);
  void on_end(int32_t peer, Link::End end, const Status& why);
  void deliver_here(int32_t peer, const std::string& frame);
  void deliver_waiting(int32_t peer, Time until);

  Service& service_;
  const Membership self_;
  Owner& owner_;
  std::map<int32_t, Entry> entries_;
  std::set<int32_t> expected_;  // and there has been no link yet
};

}  // namespace hocket
