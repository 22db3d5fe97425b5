// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One rank of a communicator: joins the others, opens pipes, passes on failures, questions and farewells. All that
// happens over links happens on the service thread; pipes and the verdict (failed or not) are shared with the thread
// that drives the communicator.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/agreement.h"
#include "comm/lasting_stream.h"
#include "comm/mesh.h"
#include "comm/mesh_exchange.h"
#include "comm/mesh_links.h"
#include "comm/mesh_pipes.h"
#include "comm/mesh_wire.h"
#include "comm/peer_memory.h"
#include "comm/remote_doors.h"
#include "comm/rendezvous_guest.h"
#include "comm/service.h"
#include "comm/stall_watch.h"

namespace hocket {

class MeshRank final : public Mesh,
                       public Door,
                       public PeerLinks::Owner,
                       public std::enable_shared_from_this<MeshRank> {
 public:
  MeshRank(Service& service, std::unique_ptr<Poller> poller, const Membership& self);
  ~MeshRank() override;

  // One of these, once, after the door was opened. They return at once.
  void join(const UniqueId& id);
  void open(std::vector<PeerInfo> peers, std::function<View()> doom, std::function<bool(int32_t)> is_lost);
  // All peers are known.
  bool complete() const { return complete_; }

  int32_t rank() const override { return rank_; }
  int32_t ranks() const override { return ranks_; }
  const PeerInfo& peer(int32_t rank) const override { return peers_[static_cast<size_t>(rank)]; }
  size_t max_message() const override { return max_message_; }
  Budget& budget() const override { return *budget_; }
  size_t slice_memory() const override { return slice_budget_->bytes(); }
  Sender* sender(PipeClass pipe_class, int32_t peer, int lane) override;
  Receiver* receiver(PipeClass pipe_class, int32_t peer, int lane) override;
  std::string_view transport_name(int32_t peer) const override;
  Poller& poller() override { return *poller_; }
  uint32_t open_window(std::span<std::byte> memory, std::shared_ptr<const Segment> segment, size_t offset,
                       WindowPurpose purpose) override;
  uint32_t open_window(std::span<std::byte> memory, std::shared_ptr<DevicePart> device,
                       std::shared_ptr<const BeyondHost> beyond, WindowPurpose purpose) override;
  void expose(uint32_t window) override;
  bool close_window(uint32_t window) override;
  Status take_back(std::span<std::byte> pages) override;
  WindowTable& windows() override { return windows_; }
  const WindowTable& windows() const override { return windows_; }
  std::shared_ptr<MulticastWindow> multicast(uint32_t window, bool may_begin) override;
  bool reaches_devices() const override { return reaches_devices_; }
  cuda::Context context() const override { return context_; }
  std::shared_ptr<OfferedMemory> offer_memory(const cuda::Driver& driver, const void* address) override;
  const PeerMemory& peer_memory() const override { return peer_memory_; }
  std::shared_ptr<const RemoteAnswer> access(int32_t peer, const RemoteRequest& request) override;
  RemoteDoor* door(int32_t peer) override { return doors_.to(peer); }
  void wake(int32_t peer) override;
  bool failed() const override { return failed_.load(std::memory_order_acquire); }
  Status status() const override;
  void fail(const Status& status) override;
  void abort(const Status& status) override;
  void fail_without_memory() noexcept override;
  std::vector<int32_t> lost() const override;
  std::vector<int32_t> present() const override;
  std::shared_ptr<const Mesh> watch() override;
  std::weak_ptr<const Mesh> glance() const override { return weak_from_this(); }
  bool is_far(int32_t peer) const override;
  bool has_left(int32_t peer) const override { return left_[static_cast<size_t>(peer)]; }
  void set_recorder(Recorder recorder) override;
  void set_whereabouts(std::function<Whereabouts()> look_up) override;
  void set_pace(std::function<Pace()> look_up) override;
  void ask(int32_t peer, uint32_t operation) override;
  bool answer(int32_t peer, CallReport* report) override;
  void compare(PipeClass pipe_class, const PipeWait& wait, const std::string& call) override;
  void leave() override;

  std::string key() const override { return key_; }
  Refusal decide(const Hello& hello) override;
  void enter(const Hello& hello, std::unique_ptr<Socket> socket) override;
  bool is_whole() const override { return links_.is_whole() || failed(); }
  void say_farewell() override;
  bool flushed() const override;
  void look_round() override;
  void shut() override;
  void disown() override;

  const PeerInfo& peer_info(int32_t rank) const override { return peer(rank); }
  void on_link_up(int32_t peer) override;
  void on_message(int32_t peer, std::string_view frame, std::vector<Handle> handles) override;
  void on_link_moved(int32_t peer, size_t from, size_t to, bool is_lost) override;
  void on_link_lost(int32_t peer, Link::End end, const Status& why) override;
  void on_unreachable(int32_t peer, Refusal refusal, const Status& why) override;
  std::shared_ptr<Owner> sibling(int32_t peer) const override { return rank_here(peer); }
  // Until all links are made the doom decides.
  bool is_lost_to_parent(int32_t peer) const override { return doom_ == nullptr && is_lost_ && is_lost_(peer); }
  std::shared_ptr<Owner> shared_owner() override { return shared_from_this(); }

 private:
  // mesh_rank.cc: joining, failing, leaving
  void on_admitted(const Result<std::vector<PeerInfo>>& neighbours);
  void send_table(const Result<std::vector<TableExchange::Outgoing>>& outgoing);
  void publish(std::vector<PeerInfo> peers);
  // Now, or once max_message is known: a peer may know all others sooner than we do, and open a pipe.
  void when_complete(std::function<void()> action);
  void flush_pipes();
  void leave_service();
  void wait_for(Duration time);
  void once(bool (MeshRank::*is_so)() const, Time limit, void (MeshRank::*then)());
  void await_links();
  void begin_leaving();
  void finish_leaving();

  // mesh_rank_failure.cc
  void blame(const Status& cause);
  void conclude(const Status& status);
  void tell_of_memory();
  void give_up(int32_t peer, Absence how, const std::string& text);
  void spread();
  void tell();
  void pursue(Time limit);
  void look_for_awaited();
  void reach_verdict();
  Whereabouts whereabouts() const;
  void show_whereabouts(const Status& status) const;
  // The first status counts.
  bool record(const Status& status, const View& view);
  void show_failure();
  void wait_for_failure(Duration patience);
  Duration patience() const;
  void note_left(int32_t peer);
  bool unwatched() const { return watchers_ == 0 || failed(); }
  void watch_for_doom(Duration pause);
  std::shared_ptr<MeshRank> rank_here(int32_t peer) const;
  // "rank 3 (process 17 on node-b)"; all ranks of its process, since they live and die together.
  std::string describe(int32_t peer) const;

  // mesh_rank_messages.cc: what peers say
  void on_greeting(int32_t peer, std::vector<Handle>& handles);
  void on_opinion(int32_t peer, Reader& reader);
  void on_dismissal(int32_t peer);
  void on_offer(int32_t peer, Reader& reader, std::vector<Handle>& handles);
  void on_question(int32_t peer, Reader& reader);
  void on_answer(int32_t peer, Reader& reader);
  void on_claim(int32_t peer, Reader& reader);
  void on_pace(int32_t peer, Reader& reader);
  void tell_pace();
  void on_misbehaviour(int32_t peer, const std::string& what);
  CallReport report(uint32_t operation) const;
  void compare_claim();

  // mesh_rank_pipes.cc: opening pipes
  const Transport* transport_between(const PeerInfo& a, const PeerInfo& b) const;
  void choose_transports_for_peers();
  void open_pipe(const PipeName& name);
  Status offer_object(const PipeName& name, const Transport& transport);
  Status offer_handles(const PipeName& name, const Transport& transport);
  void dial_pipe(const PipeName& name, uint8_t transport);
  void on_pipe_dialled(const PipeName& name, uint8_t transport, Result<std::unique_ptr<Socket>> socket,
                       Refusal refusal);
  Status open_ends(const PipeName& name, PipeEnd end, const Transport& transport, std::unique_ptr<Socket> socket);
  Status open_sender(const PipeName& name, const Transport& transport, Offer offer);
  void accept_later(const PipeName& name, uint8_t transport, Offer offer);
  Status accept_pipe(const PipeName& name, const Transport& transport, Offer offer,
                     const std::shared_ptr<Poller>& peer_poller);
  PipeContext context_for(const PipeName& name, const Transport& transport, const std::shared_ptr<Poller>& peer_poller);
  std::shared_ptr<PeerWaker> waker_of(int32_t peer);

  // mesh_rank_streams.cc: connections of pipes between hosts that are lost and replaced
  using StreamName = std::pair<PipeName, PipeEnd>;
  std::shared_ptr<LastingStream> stream(const PipeName& name, PipeEnd end) const;
  // What the pipe's end gets of its first connection.
  std::unique_ptr<Socket> lasting(const PipeName& name, PipeEnd end, std::unique_ptr<Socket> socket);
  void end_streams(int32_t peer);
  void on_stream_news(const PipeName& name, PipeEnd end);
  void on_stream(int32_t peer, Reader& reader);
  void replace(const PipeName& name, LastingStream& sending, std::unique_ptr<Socket> socket);
  void go_on(const PipeName& name, PipeEnd end, std::unique_ptr<Socket> socket, uint16_t connection);
  void resend(const PipeName& name, PipeEnd end);

  // mesh_rank_stalls.cc: pipes that lose what is sent
  void on_count(int32_t peer, Reader& reader);
  void on_count_answer(int32_t peer, Reader& reader);
  void fail_stalled(const StreamName& pipe, const StallWatch& stall, Duration limit);

  // mesh_rank_windows.cc: memory that peers reach
  bool all_share_memory() const;
  void fail_others_with(std::span<std::byte> pages);
  bool all_by_memory() const;
  void tell_of_window(WindowOffer offer, std::shared_ptr<const Segment> segment);
  void offer_window(const WindowOffer& offer, const std::shared_ptr<const Segment>& segment);
  void keep_until_sent(const std::shared_ptr<const Segment>& segment);
  void on_window(int32_t peer, Reader& reader, std::vector<Handle>& handles);
  Result<WindowPart> part_of(const WindowOffer& offer, std::vector<Handle>& handles);

  // mesh_rank_memory.cc: device memory that is no window
  bool all_reach_devices() const;
  void tell_of_device_memory(const OfferedMemory& offered);
  void on_memory(int32_t peer, Reader& reader, std::vector<Handle>& handles);
  void answer_memory(int32_t peer, const MemoryMessage& message, std::shared_ptr<const cuda::MappedMemory> mapped);
  void on_memory_answer(int32_t peer, Reader& reader);
  void on_withdrawal(int32_t peer, Reader& reader);
  void let_go_of_memory();

  // mesh_rank_multicast.cc: windows behind one address
  void begin_multicast(uint32_t window, const std::vector<std::shared_ptr<DevicePart>>& parts);
  void do_for_multicast(uint32_t window, std::function<Status(const cuda::Driver&, DevicePart&)> work);
  void answer_multicast(uint32_t window, bool has_done);
  void tell_of_multicast(const MulticastMessage& message, const std::shared_ptr<const Segment>& descriptor);
  void hear_of_multicast(int32_t rank, uint32_t window, bool has_done);
  void turn_off_multicast(const std::shared_ptr<DevicePart>& ours);
  void on_multicast(int32_t peer, Reader& reader, std::vector<Handle>& handles);

  // mesh_rank_remote.cc: one-sided access
  void on_access(int32_t peer, Reader& reader);
  void on_access_reply(int32_t peer, Reader& reader);
  RemoteReply serve(int32_t peer, const RemoteRequest& request);
  RemoteReply open_door(int32_t peer, const RemoteRequest& request);

  Service& service_;
  const std::shared_ptr<Poller> poller_;  // siblings that send to us wake it
  const std::string id_;
  const std::string key_;
  const int32_t rank_;
  const int32_t ranks_;
  const Duration operation_timeout_;
  const cuda::Context context_;  // in which peers' memory is mapped; null: none
  const std::string devices_;    // as PeerInfo has them

  // Written on the service thread until complete_, constant from then on.
  std::vector<PeerInfo> peers_;
  std::vector<const Transport*> transports_;  // by peer; null: none reaches it
  size_t max_message_ = 0;
  std::shared_ptr<Budget> budget_;         // of our pipes' memory ...
  std::shared_ptr<Budget> slice_budget_;   // ... its part for messages
  std::shared_ptr<Budget> stream_budget_;  // ... and for what streams to other hosts keep
  bool shares_cores_ = false;              // with other ranks of this kernel
  bool reaches_devices_ = false;
  std::atomic<bool> complete_ = false;

  // Shared between threads.
  std::atomic<bool> failed_ = false;
  std::vector<std::atomic<bool>> left_;
  PipeTable pipes_;
  WindowTable windows_;
  PeerMemory peer_memory_;
  std::set<uint64_t> refused_;  // allocations that the driver does not share; the issuing thread only
  RemoteDoors doors_;
  mutable std::mutex mutex_;
  Status status_;
  View agreed_;  // on which status_ rests
  Recorder recorder_;
  std::function<Whereabouts()> look_up_;
  std::function<Pace()> pace_;
  std::map<int32_t, uint32_t> questions_;  // the newest to each peer
  std::map<int32_t, CallReport> answers_;
  std::map<int32_t, std::shared_ptr<PeerWaker>> wakers_;
  std::map<int32_t, std::map<uint64_t, std::shared_ptr<RemoteAnswer>>> accesses_;  // under way, by peer
  uint64_t last_access_ = 0;
  std::atomic<bool> said_farewell_ = false;
  std::atomic<bool> disowned_ = false;
  std::atomic<bool> lacks_memory_ = false;  // and nobody has been told
  std::atomic<bool> closed_ = false;
  std::atomic<int> watchers_ = 0;
  bool has_called_leave_ = false;

  // Service thread only.
  TableExchange exchange_;
  std::unique_ptr<RootVisit> visit_;
  PeerLinks links_;
  std::map<PipeName, std::unique_ptr<Dial>> pipe_dials_;
  std::map<StreamName, std::shared_ptr<LastingStream>> streams_;
  std::map<StreamName, StallWatch> stalls_;  // of the ends of pipes at which we have waited
  Agreement agreement_;
  uint32_t seen_ = 0;                // our newest collective when we last looked round ...
  uint32_t claimed_ = 0;             // ... and of which the next rank was told
  std::optional<CallReport> claim_;  // of the rank before us, not yet compared
  PaceWatch paces_;                  // ours and our neighbours'
  bool pursued_ = false;             // the agreement
  bool spreading_ = false;           // our opinion, in the next turn of the loop
  std::vector<std::function<void()>> until_complete_;
  std::function<View()> doom_;            // as MeshOptions has it
  std::function<bool(int32_t)> is_lost_;  // the same
};

}  // namespace hocket
