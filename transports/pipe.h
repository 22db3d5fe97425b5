// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A pipe is the only wire: a bounded, ordered queue of messages from one rank to another, used in place. The producer
// reserves transport memory, writes into it and commits; the consumer peeks, reads in transport memory and releases.
// Flow control lives inside the pipe. A pipe knows no collective.
//
// Threads: one thread at a time per Sender and per Receiver. No method blocks. A failed pipe stays failed: reserve and
// peek return null from then on, and progress says why. Ask progress whenever nothing else moves.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/system.h"
#include "transports/budget.h"

namespace hocket {

// What a message belongs to. Both ends compute it; a difference means that the ranks' calls do not match.
struct Envelope {
  uint32_t operation = 0;  // the call and those before it, scattered (Order::with)
  uint32_t message = 0;    // number of the message among those of this pipe

  // 24 bits that fit the shortest header.
  uint32_t digest() const { return (operation + message) & 0xFFFFFF; }
};

struct Message {
  const std::byte* data = nullptr;
  size_t size = 0;
  uint32_t digest = 0;
  bool in_shared_cache = false;  // most likely in one that the reader's core shares with the writer's
};

// Names a stable send in progress; 0 is none.
using Ticket = uint64_t;
// The ticket of a stable send whose bytes were copied: done at once.
inline constexpr Ticket kCopied = ~Ticket{0};

// Every pipe accepts at least this many messages, each as long as max_message, while the receiver releases none.
inline constexpr size_t kPipeDepth = 8;

// How many messages have passed one end of a pipe, modulo 2^32: counted by whoever uses that end, read by any thread.
class MessageCount {
 public:
  uint32_t get() const { return count_.load(std::memory_order_relaxed); }
  // Gives its number, from 0.
  uint32_t count_one() {
    const uint32_t number = get();
    count_.store(number + 1, std::memory_order_relaxed);
    return number;
  }

 private:
  std::atomic<uint32_t> count_ = 0;
};

// How far the caches of another core are, by what it takes to claim lines there.
enum class Distance : uint8_t { kNear, kMiddle, kFar };

class Sender {
 public:
  virtual ~Sender() = default;
  // Memory for one message of up to `bytes` (<= max_message; 0 is a message too). Null: there is no room for it now,
  // come back. Repeated calls with the same size return the same memory until commit, or until send_stable gives it up.
  virtual std::byte* reserve(size_t bytes) = 0;
  // Sends the first `bytes` of what was reserved. Whoever wrote past the caches has fenced the stores (sfence):
  // the release store in here does not order them. kernels::copy and combine end with that fence.
  virtual void commit(size_t bytes, Envelope envelope) = 0;
  // Sends one message from the caller's memory, which must stay unchanged until done(ticket). 0: full now, come back.
  // The default copies.
  virtual Ticket send_stable(std::span<const std::byte> bytes, Envelope envelope);
  // The same, and the bytes may stay there until the receiver has looked at the message. The default sends them stable.
  virtual Ticket lend(std::span<const std::byte> bytes, Envelope envelope) { return send_stable(bytes, envelope); }
  // As far as is known now, lend() leaves these bytes where they are: then it takes them although the host does not
  // reach them (lasting_memory.h). The default reaches what the host does.
  virtual bool can_lend(std::span<const std::byte>) { return false; }
  // The caller's memory is free again: the bytes are on their way, or the pipe has failed.
  virtual bool done(Ticket) { return true; }
  // The caller takes back the memory of all sends that are not done: from now on the pipe may lose them, and the pipe
  // fails rather than deliver what has changed.
  virtual void withdraw() {}
  // Moves what can be moved. Fails when the peer cannot be reached any more.
  virtual Status progress() { return {}; }
  // Nothing committed still waits in this process' memory. Never of a failed pipe, which may have lost it.
  virtual bool flushed() { return true; }
  // The caller is about to sleep (true) or has woken (false): the peer wakes it once when room appears. Say true before
  // every sleep, then look once more, then sleep for a bounded time: a peer that acts at that very moment may miss it.
  virtual void set_waiting(bool) {}

  // Of what was reserved last: a core that has it in its cache reads it next, so that messages from this size on are
  // best written as streams (kernels/kernels.h).
  size_t streaming_from = SIZE_MAX;
  Distance reader_distance = Distance::kNear;
  // ... so far that claiming lines there takes longer than writing past the caches, where data comes back at the same
  // time or does not: who only sends has the memory to itself (docs/decisions/0060).
  bool reader_is_far(bool data_comes_back) const {
    return reader_distance == Distance::kFar || (reader_distance == Distance::kMiddle && !data_comes_back);
  }
  // send_stable() sends without a copy for messages from this size on.
  size_t stable_from = SIZE_MAX;
  // lend() does, and is done only when the receiver has looked at the message.
  size_t lent_from = SIZE_MAX;
  // Committed ones.
  MessageCount messages;

  // The receiver's rank has said, but not over this pipe, how many were released. Any thread.
  void note_released(uint32_t count) { released_.store(count, std::memory_order_release); }
  // What was said is of an earlier message.
  void forget_released() { released_.store(kNotSaid, std::memory_order_relaxed); }
  // All of them were, as was said since: this process is needed for none of them, nor is their memory, though the pipe
  // may hear of it only when the receiver looks again.
  bool all_released() const { return released_.load(std::memory_order_acquire) == messages.get(); }

 private:
  static constexpr uint64_t kNotSaid = ~uint64_t{0};
  std::atomic<uint64_t> released_ = kNotSaid;
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // The next message, or null when none is there. Valid until release(). Repeated calls return the same message.
  virtual const Message* peek() = 0;
  virtual void release() = 0;
  // The next message straight into the caller's memory, if it is exactly `into.size()` bytes long; call again with the
  // same arguments until it returns non-null (its data is then `into`), and then release(). When the sizes differ, or
  // it would save no copy, it returns the message as peek() does, and `into` is untouched. The default peeks.
  virtual const Message* receive_into(std::span<std::byte>) { return peek(); }
  // The same for memory that the host does not reach (lasting_memory.h): what a card does not bring there is elsewhere
  // in the end, as with peek(). The default peeks.
  virtual const Message* receive_beyond(std::span<std::byte>) { return peek(); }
  // The caller takes back what it gave to one of these in vain: nothing is written there any more. The pipe fails.
  virtual void withdraw() {}
  virtual Status progress() { return {}; }
  // As for the sender: wakes the caller once when a message appears.
  virtual void set_waiting(bool) {}
  // Changes whenever a part of the next message has come; stays 0 where that cannot be seen.
  virtual uint64_t arrived() const { return 0; }

  // receive_into() saves a copy for messages from this size on.
  size_t into_from = SIZE_MAX;
  // ... and has written nothing as long as it returns null and has not failed: it need not be called again.
  bool lands_at_once = false;
  // Released ones.
  MessageCount messages;
};

// What one rank tells the others of itself at init, as far as transports need it.
struct PeerInfo {
  int32_t rank = 0;
  std::string host_identity;  // Network::host_identity()
  uint64_t process = 0;       // random, equal for ranks of one process
  std::string host_name;
  int32_t pid = 0;
  std::string kernel;              // random, equal for all processes of one, in whatever containers they are
  std::string cpus;                // of that kernel, which the process may run on: bits in hexadecimal, lowest first
  std::vector<Address> addresses;  // of the service's stream listener, in order of preference
  std::vector<std::string> interfaces;  // those of these addresses
  Address local_address;                // unix: listener of the service
  uint64_t max_message = 0;             // the longest message of this process' pipes; the ranks agree on the minimum
  uint64_t pipe_memory = 0;             // rank 0: budget of every rank's pipes; 0: by the number of ranks
  std::string transports;               // those that this process allows, divided by commas; empty: all
  std::string presence;                 // what this process' transports say of it, for Transport::reaches
  std::string devices;                  // whose memory kernels of this rank may use, its own device first; empty: none
  std::string tuning;                   // rank 0: what all choose by (choose/tuning.h); empty: what is built in

  // "eth0 (10.0.0.7:4711)".
  std::string way(size_t address) const { return interfaces[address] + " (" + addresses[address] + ")"; }
};

// How the sender's end reaches the receiver's: whichever members the transport fills travel to the peer.
struct Offer {
  std::vector<Handle> handles;     // passed between processes of one host; open's stay the sender's, accept owns its
  std::shared_ptr<Socket> socket;  // connected and authenticated; watched by the poller until its ends are gone
  std::shared_ptr<void> object;    // passed between ranks of one process
};

// What a transport keeps for both ends that a rank has towards a peer on one lane, its sender and its receiver.
class Ties {
 public:
  virtual ~Ties() = default;
};

// Lengths have 24 bits in the shortest header.
inline constexpr size_t kMaxMessageLimit = size_t{1} << 24;

// What a pipe end needs to know of its surroundings.
struct PipeContext {
  System& system;
  Poller& poller;                    // wakes this end's caller; sockets are added to it
  std::function<void()> wake_peer;   // wakes the other end's caller (one host only)
  size_t max_message = 0;            // agreed by all ranks: the longest message, below kMaxMessageLimit
  std::string peer;                  // names the other end in messages: "rank 3 on node-b"
  bool checksum = true;              // of what is sent over a network; receivers check whatever has one
  std::shared_ptr<Ties> ties{};      // make_ties(), of this end and the rank's other one towards the peer
  bool shares_cores = false;         // ranks of this kernel do, so that their caches are few
  std::shared_ptr<Budget> budget{};  // of the pipes' memory; null: nobody counts it
};

class Transport {
 public:
  enum class Carrier : uint8_t { kObject, kHandles, kSocket };  // which member of Offer it uses

  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  virtual Carrier carrier() const = 0;
  // kSocket: a connection carries one pipe each way, for two ends in each process, each used by one thread.
  virtual bool is_two_way() const { return false; }
  // kSocket: where the socket goes over another interface, because one is lost, the pipe's messages do so, too.
  virtual bool follows_socket() const { return true; }
  // What peers must know of this process for reaches(): words, divided by blanks.
  virtual std::string presence() const { return {}; }
  virtual bool reaches(const PeerInfo& self, const PeerInfo& peer) const = 0;
  // Longer messages its pipes cut, and copy once more to put them together.
  virtual size_t uncut_message() const { return SIZE_MAX; }
  // Null: its two ends have nothing in common.
  virtual std::shared_ptr<Ties> make_ties() const { return nullptr; }
  // kSocket: takes offer.socket. Others: fills the offer, which the mesh passes to the peer.
  virtual Result<std::unique_ptr<Sender>> open(const PipeContext& context, Offer& offer) const = 0;
  virtual Result<std::unique_ptr<Receiver>> accept(const PipeContext& context, Offer offer) const = 0;
};

// All transports, in order of preference. The only place outside their folders that names them.
std::span<const Transport* const> transports();

// What stands for a transport between processes, whatever each of them was built with. Null: this one has none such.
uint8_t number_of(const Transport& transport);
const Transport* transport_of(uint8_t number);

// Those that a comma-separated list names ("shm,tcp"), in its order. For an empty list: all that need not be asked for.
Result<std::vector<const Transport*>> choose_transports(std::string_view names);

}  // namespace hocket
