// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The mesh: what one rank of a communicator knows of the others and how it reaches them. It opens pipes at first use,
// carries control messages (failures, call records, farewells), watches that peers live, and fails once for all.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/system.h"
#include "comm/agreement.h"
#include "comm/mesh_windows.h"
#include "comm/peer_memory.h"
#include "comm/remote.h"
#include "comm/remote_door.h"
#include "observe/pace.h"
#include "observe/whereabouts.h"
#include "transports/pipe.h"

namespace hocket {

// So long may TCP, whose packets are lost, bring nothing of what a peer has sent: it sends again after 200 ms, 400, ...
inline constexpr Duration kOnItsWay = std::chrono::seconds(3);

enum class PipeClass : uint8_t { kCollective, kPointToPoint };

struct PipeWait;  // execute/execution.h
class MulticastWindow;

// What a peer answers when asked for one of its calls.
struct CallReport {
  enum class State : uint8_t { kNotYet, kKnown, kForgotten } state = State::kNotYet;
  uint32_t operation = 0;
  uint32_t fingerprint = 0;
  std::string text;  // "all_reduce(count 1000, float32, sum)"; not known: of the newest call, empty if there is none
  std::string algorithm;
  uint32_t newest = 0;    // the newest call
  int32_t stuck_on = -1;  // nothing else is called until the newest call ends, and it waits for this peer; -1: not so
  bool rests = false;     // no collective runs, or the one that runs found nothing to do; for the rank itself
};

class Mesh {
 public:
  virtual ~Mesh() = default;

  virtual int32_t rank() const = 0;
  virtual int32_t ranks() const = 0;
  virtual const PeerInfo& peer(int32_t rank) const = 0;
  // The longest message, equal on all ranks.
  virtual size_t max_message() const = 0;
  // Of the memory of our pipes, as much on all ranks.
  virtual Budget& budget() const = 0;
  // The part of it that messages may take on their way, where streams to other hosts have the rest.
  virtual size_t slice_memory() const = 0;

  // The end of a pipe, opened at the first call; null until it is open (come back) or when the mesh has failed. Owned
  // by the mesh and valid as long as it. Called by the thread that drives the communicator.
  virtual Sender* sender(PipeClass pipe_class, int32_t peer, int lane) = 0;
  virtual Receiver* receiver(PipeClass pipe_class, int32_t peer, int lane) = 0;
  // The transport that joins us to a peer, for explain and records.
  virtual std::string_view transport_name(int32_t peer) const = 0;
  // Where the driving thread sleeps; pipes, failures and replies wake it.
  virtual Poller& poller() = 0;

  // Registers memory of ours as our part of the next window and tells the peers; returns its number at once. `segment`,
  // in which the memory begins at `offset`, is what others can map; null: they cannot. Ranks open windows in one order.
  virtual uint32_t open_window(std::span<std::byte> memory, std::shared_ptr<const Segment> segment, size_t offset,
                               WindowPurpose purpose = WindowPurpose::kData) = 0;
  // The same of memory of a device. `beyond`: how cards reach it; null: they do not.
  virtual uint32_t open_window(std::span<std::byte> memory, std::shared_ptr<DevicePart> device,
                               std::shared_ptr<const BeyondHost> beyond, WindowPurpose purpose) = 0;
  // Peers' devices may reach a window of ours from now on, where a transport has such.
  virtual void expose(uint32_t window) = 0;
  // Forgets a window of ours, which no device reaches any more; false when there is none. Nothing that uses it is under
  // way.
  virtual bool close_window(uint32_t window) = 0;
  // Peers write to these pages of a window no more: they belong to a call of ours that has failed and returns, and some
  // peer may not have heard of it. Other communicators with a window there fail, for their peers would work on what is
  // ours no longer. Fails when there is no memory for other pages.
  virtual Status take_back(std::span<std::byte> pages) = 0;
  virtual WindowTable& windows() = 0;
  virtual const WindowTable& windows() const = 0;
  // A window of devices that is to come behind one address; null: it is not. `may_begin`: sees to it, if nobody has.
  virtual std::shared_ptr<MulticastWindow> multicast(uint32_t window, bool may_begin) = 0;
  // Kernels of every rank may reach device memory of every other, as far as all that differs from call to call allows
  // it. Equal on all ranks.
  virtual bool reaches_devices() const = 0;
  // In which the peers' memory is mapped; null: this rank's kernels reach none.
  virtual cuda::Context context() const = 0;
  // What peers know, or are told now, of the allocation that the address lies in. Null: it cannot be shared. The thread
  // that issues calls.
  virtual std::shared_ptr<OfferedMemory> offer_memory(const cuda::Driver& driver, const void* address) = 0;
  virtual const PeerMemory& peer_memory() const = 0;
  // Asks a peer's service thread for access to a window of its own; the poller is woken when the answer is there. Null:
  // too many are under way to that peer.
  virtual std::shared_ptr<const RemoteAnswer> access(int32_t peer, const RemoteRequest& request) = 0;
  // By which our device comes to that peer's windows; null: it does not. Valid until leave().
  virtual RemoteDoor* door(int32_t peer) = 0;
  // Wakes who sleeps on the poller of a peer on this host.
  virtual void wake(int32_t peer) = 0;

  // The first failure, wherever it was detected; ok while there is none. Any thread.
  virtual bool failed() const = 0;
  virtual Status status() const = 0;
  // Fails this communicator here and on every rank that can be reached; only the first call counts. Returns when the
  // ranks have agreed on what happened: that may be something else. Any thread.
  virtual void fail(const Status& status) = 0;
  // The same, but waits for nobody: here the communicator has failed by this. Any thread.
  virtual void abort(const Status& status) = 0;
  // Fails this communicator here and takes no memory; the others hear of it in the service's next round. Any thread.
  virtual void fail_without_memory() noexcept = 0;
  // The ranks that are lost, as all survivors have agreed; empty while there is no failure, and when nobody is to
  // blame.
  virtual std::vector<int32_t> lost() const = 0;
  // The ranks that were neither lost nor gone when the survivors agreed; all ranks while there is no failure.
  virtual std::vector<int32_t> present() const = 0;
  // For who wants to know of failures: the farewell that leave() says is put off until nobody watches, for a while.
  virtual std::shared_ptr<const Mesh> watch() = 0;
  // The same for who does not hold it up; null when this is gone.
  virtual std::weak_ptr<const Mesh> glance() const = 0;
  // It is on another host.
  virtual bool is_far(int32_t peer) const = 0;
  // True when the peer has said farewell (destroyed the communicator, or its program ended): nothing new will come.
  virtual bool has_left(int32_t peer) const = 0;

  // Answers peers' questions about our calls; 0 is the newest collective. Called on the service thread; set before the
  // first call, cleared by leave(). When a rank rests, the next one compares the newest collective with its own.
  using Recorder = std::function<CallReport(uint32_t operation)>;
  virtual void set_recorder(Recorder recorder) = 0;
  // Says where this rank stands when the communicator fails. Called and cleared as the recorder is.
  virtual void set_whereabouts(std::function<Whereabouts()> look_up) = 0;
  // Says how this rank gets on, for neighbours that look for a slow one. Called and cleared as the recorder is.
  virtual void set_pace(std::function<Pace()> look_up) = 0;
  // Asks a peer for one of its calls. The reply is fetched with answer(); a new question replaces the old one.
  virtual void ask(int32_t peer, uint32_t operation) = 0;
  virtual bool answer(int32_t peer, CallReport* report) = 0;
  // Compares how far both ends of a pipe to another host have come, because `call` has waited there for long. To be
  // called every few hundred milliseconds while it does: when what the peer has sent does not come for longer than
  // HOCKET_TIMEOUT, though both live, the communicator fails. Where all was sent, the pipe is told how much the peer
  // has released.
  virtual void compare(PipeClass pipe_class, const PipeWait& wait, const std::string& call) = 0;

  // Says farewell, closes links and pipes. No other call may be in progress. Idempotent.
  virtual void leave() = 0;
};

// Why a communicator fails of which Mesh::take_back has found a window.
Status taken_back(int32_t rank);

// The members of a new mesh and the secret that admits them.
struct MeshOptions {
  std::string id;   // 16 bytes, public: which communicator
  std::string key;  // 16 bytes or more, secret: who may join
  int32_t rank = 0;
  std::vector<PeerInfo> peers;      // of all ranks, in order
  cuda::Context context = nullptr;  // in which kernels may reach the peers' memory; null: in none
  Duration operation_timeout{};     // bound on waiting for a live rank that has not come; zero: the service's
  // What has ended this for ranks that will never come, the same for all who have; blames nobody: nothing. Asked on the
  // service thread until all links are made. May be empty.
  std::function<View()> doom = {};
  // The communicator that this one is made of has lost that rank, who need not be dialled for long. Asked on the
  // service thread. May be empty.
  std::function<bool(int32_t rank)> is_lost = {};
};

// Opens the mesh of a group whose members already know each other (split). Returns at once; links follow.
class Service;
Result<std::shared_ptr<Mesh>> open_mesh(Service& service, MeshOptions options);

// Joins the ranks that hold the same unique id: check-in with the root, all-gather of PeerInfo over log2(ranks) links.
// Blocks until all ranks have come, or fails naming who is missing, came twice, or does not fit.
struct JoinOptions {
  std::string unique_id;  // the 128 bytes of hocketUniqueId
  int32_t rank = 0;
  int32_t ranks = 1;
  Duration operation_timeout{};     // as that of MeshOptions
  cuda::Context context = nullptr;  // as that of MeshOptions
  std::function<bool()> cancelled;  // polled; true ends the wait with kInvalidUsage
};
Result<std::shared_ptr<Mesh>> join_mesh(Service& service, const JoinOptions& options);

// Starts a root that admits ranks for one communicator and returns its unique id. The root lives on the service until
// all ranks have joined or the service ends. `address`: where to listen; empty: the chosen interface, any port.
Result<std::string> make_unique_id(Service& service, const Address& address = {});

}  // namespace hocket
