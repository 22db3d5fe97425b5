// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The service: the one thread of a process that listens, connects and keeps links alive. It admits only who proves the
// key of a communicator, and then hands the connection to whoever keeps that communicator's door. Knows no rank's
// state.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/reactor.h"
#include "base/status.h"
#include "base/system.h"
#include "comm/handshake.h"
#include "comm/links.h"
#include "comm/links_heart.h"
#include "transports/pipe.h"

namespace hocket {

class Acceptor;

struct ServiceOptions {
  Duration timeout = std::chrono::seconds(5);             // silence of a link: its peer is gone
  Duration operation_timeout = std::chrono::minutes(10);  // for a live rank that does not come
  Duration handshake_timeout = std::chrono::seconds(5);
  size_t max_strangers = 256;              // connections that have proved nothing yet; fewer where descriptors are few
  size_t max_message = size_t{256} << 10;  // of our pipes; the ranks agree on the minimum
  size_t pipe_memory = 0;                  // where this process has rank 0; 0: by the number of ranks
  std::string interface;
  std::string transports;
  bool checksum = true;          // of what pipes send over a network
  bool encrypt = false;          // what goes over TCP
  std::string host_id;           // ranks with another one are on another host
  std::string secret;            // admits ranks that meet without a unique id
  std::string tuning;            // what all choose by where this process has rank 0; empty: what is built in
  uint32_t library_version = 0;  // 0: this one's
};
Result<ServiceOptions> service_options_from_settings();

// Admits connections for one rank of a communicator, or for its root. Called on the service thread, but for key().
class Door {
 public:
  virtual ~Door() = default;
  virtual std::string key() const = 0;
  // The dialer has proved the key: may it come in now? Changes nothing.
  virtual Refusal decide(const Hello& hello) = 0;
  virtual void enter(const Hello& hello, std::unique_ptr<Socket> socket) = 0;
  // All have come who are to: who comes when the process has ended would take it for dead.
  virtual bool is_whole() const { return true; }
  // The process ends: the last chance to say so. True when nothing waits to be sent.
  virtual void say_farewell() {}
  virtual bool flushed() const { return true; }
  // A few times a second.
  virtual void look_round() {}
  // The service thread has run out of memory: what was to be done for this door is perhaps not done.
  virtual void fail_without_memory() noexcept {}
  // Closes all connections.
  virtual void shut() = 0;
  // This is a child that fork() made: the door belongs to the parent. Takes no lock.
  virtual void disown() {}
};

class Service {
 public:
  explicit Service(System& system, const Result<ServiceOptions>& options = ServiceOptions{});
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Ok when the service can be used: it could start, has not ended, and this is not a child that fork() made of it.
  Status ready() const;
  // This process is the one that made the service; a child has its memory but not its thread.
  bool in_its_process() const;

  System& system() { return system_; }
  Reactor& reactor() { return reactor_; }
  // What goes over a connection to this address, of ours or of a peer, is encrypted.
  bool seals(const Address& address) const { return options_.encrypt && !address.starts_with("unix:"); }
  const ServiceOptions& options() const { return options_; }
  // HOCKET_TIMEOUT, as ranks compare it.
  std::chrono::microseconds told_timeout() const {
    return std::chrono::ceil<std::chrono::microseconds>(options_.timeout);
  }
  // How often is looked for what nobody tells.
  Duration look() const { return options_.timeout / 32; }
  Link::Context link_context() { return {system_, reactor_, heart_}; }
  // What a call in such a child hears.
  Status forked() const;
  // What the ranks of this process tell others, but for the rank.
  const PeerInfo& self() const { return self_; }
  // 0, 1, 2, ... for communicators that all processes make in the same order.
  uint64_t next_sequence() { return sequence_++; }

  // Doors, by communicator and rank (kRoot: the root). Any thread. Opening fails when that door is open already; a
  // closed one tells who knocks that its rank has left.
  Status open_door(const std::string& id, int32_t rank, std::shared_ptr<Door> door);
  void close_door(const std::string& id, int32_t rank);
  std::shared_ptr<Door> find_door(const std::string& id, int32_t rank) const;
  using Doors = std::vector<std::shared_ptr<Door>>;
  Doors doors_of(const std::string& id) const;
  Doors all_doors() const;
  // All communicators of this process, for it is not known whom it would have concerned. Any thread.
  void fail_all_without_memory() noexcept;
  bool was_closed(const std::string& id, int32_t rank) const;

  // How many have asked for a root that is not here (yet). Any thread.
  uint64_t unknown_guests() const;

  // The root of this communicator has done its work: it stays for a while, to tell late guests what happened.
  void retire_root(const std::string& id);

  // Listens at one more address, until the service ends; returns it with the port that was bound. Any thread.
  Result<Address> listen(const Address& address);
  // Numeric addresses (without port) of the chosen interface.
  const std::vector<InterfaceAddress>& interface() const { return interface_; }

  // What fork() calls, before and after, so that a child finds no lock held and its parent's communicators failed.
  void before_fork() { mutex_.lock(); }
  void after_fork_in_parent() { mutex_.unlock(); }
  void after_fork_in_child();

  // Says farewell for all that is still open, and stops the thread. Idempotent.
  void end();

 private:
  using DoorName = std::pair<std::string, int32_t>;

  Status start();
  Status listen_everywhere();
  void describe_self();
  void look_round();
  void on_exhausted();
  // On the service thread: what is next once all doors are so, or at the limit.
  void when_all(const Doors& doors, bool (Door::*are)() const, Time limit, const std::function<void()>& then);
  void take_leave(const Doors& doors, const std::function<void()>& then);

  System& system_;
  ServiceOptions options_;
  const int process_;
  Reactor reactor_;
  Heart heart_;
  std::unique_ptr<Acceptor> acceptor_;
  PeerInfo self_;
  std::vector<InterfaceAddress> interface_;
  Status started_;
  bool running_ = false;  // the thread was started
  std::atomic<bool> ended_ = false;
  std::atomic<uint64_t> sequence_ = 0;

  mutable std::mutex mutex_;
  std::map<DoorName, std::shared_ptr<Door>> doors_;
  std::set<DoorName> closed_;
  std::deque<DoorName> closed_order_;      // oldest first
  std::deque<std::string> retired_roots_;  // oldest first
  std::map<Address, Address> listening_;
};

// The service of this process, made at the first call; a child that fork() makes gets its own.
Service& process_service();

}  // namespace hocket
