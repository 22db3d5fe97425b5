// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One rank of a communicator: turns requests into planned calls on its mesh, keeps plans and scratch memory, and knows
// in which order its calls run. It does not drive them: see drive.h and queue.h.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/system.h"
#include "choose/choose.h"
#include "comm/call_log.h"
#include "comm/call_places.h"
#include "comm/crowd.h"
#include "comm/imported.h"
#include "comm/mesh.h"
#include "comm/operation.h"
#include "comm/planner.h"
#include "comm/reductions.h"
#include "comm/request.h"
#include "comm/signals.h"
#include "execute/exact.h"
#include "execute/execution.h"
#include "execute/fast_path.h"
#include "execute/wait.h"

namespace hocket {

struct CommunicatorOptions {
  std::string name;              // shown in errors; may be empty
  Duration operation_timeout{};  // bound on waiting for a live rank that has not come
  Duration spin{-1};             // before yielding; negative: chosen
  Forced forced;
  int32_t lanes = 0;  // of long calls; 0: chosen
  Encoding compression = Encoding::kWherePays;
  int32_t explore = 0;                      // percent of the calls' time
  int cuda_device = -1;                     // that the creating thread uses; -1: none
  cuda::Context context = nullptr;          // of that device
  const ImportedPlans* imported = nullptr;  // go before what is chosen; null: none
  Reproducibility reproducibility = Reproducibility::kFast;
  std::string key;  // of the communicator: splits derive theirs from it
  FlightRecorder* flight = nullptr;
};

// The pipe ends of one class, opened through the mesh when first used.
class PipeEnds final : public Pipes {
 public:
  PipeEnds(Mesh& mesh, PipeClass pipe_class);
  SendEnd& to(Rank peer, int lane) override;
  ReceiveEnd& from(Rank peer, int lane) override;

 private:
  Mesh& mesh_;
  PipeClass class_;
  std::vector<std::vector<SendEnd>> senders_;  // by lane and peer
  std::vector<std::vector<ReceiveEnd>> receivers_;
};

// What follows from the facts of a call alone.
struct RecentCall {
  CallFacts facts;
  bool in_window = false;  // some buffer is
  bool in_place = false;
  const Plan* plan = nullptr;  // null: unused
  size_t lends_up_to = 0;      // bytes of the longer buffer
  bool receives = false;       // data
  size_t window = 0;
  size_t slice_bytes = 0;
  uint32_t fingerprint = 0;
  const void* send = nullptr;  // as they were then
  const void* recv = nullptr;
  size_t reach = 0;             // bytes of the longer buffer
  uint64_t window_changes = 0;  // with which these buffers were looked up in windows last
  bool recalled = false;        // made more than once
  FastPath fast_path;
  uint32_t kind = 0;             // in the call log
  Explored* explored = nullptr;  // null: nothing is left to be tried
  int64_t* time = nullptr;       // of a trial, which is not made again: where it belongs
};

// How far a call that is made again has come by itself.
struct Repeated {
  bool done = false;
  std::optional<size_t> slices;  // else, if it has begun: an operation for it goes on from there
};

class Inbox;

class Communicator {
 public:
  Communicator(System& system, std::shared_ptr<Mesh> mesh, CommunicatorOptions options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Rank rank() const { return mesh_->rank(); }
  Rank ranks() const { return mesh_->ranks(); }
  const Placement& placement() const { return placement_; }
  Mesh& mesh() { return *mesh_; }
  System& system() { return system_; }
  CallLog& call_log() { return *call_log_; }
  const CommunicatorOptions& options() const { return options_; }
  Duration operation_timeout() const { return options_.operation_timeout; }
  // The CUDA device that the creating thread used; -1: none.
  int cuda_device() const { return options_.cuda_device; }
  // "name: ", or nothing.
  const std::string& prefix() const { return prefix_; }

  // Issuing: one thread at a time.
  std::unique_ptr<Operation> make_operation(const Request& request);
  // That which blocking collectives share.
  Operation& blocking_operation() { return blocking_; }
  // That, or the one that blocking transfers share.
  Operation& blocking_operation(const CallArguments& call) {
    return is_transfer(call) ? blocking_transfer_ : blocking_;
  }
  // A call like this was made before: the same facts, other buffers that differ in nothing that was checked.
  bool may_repeat(const CallArguments& arguments, const void* send, const void* recv);
  // Makes such a blocking call at once. False: the caller checks it and makes it the long way.
  bool repeat(const CallArguments& arguments, const void* send, void* recv);
  // The same for a transfer of a group, which may be repeated. `is_last`: no other of the group waits behind it.
  Repeated repeat_transfer(const CallArguments& arguments, const void* send, void* recv, bool is_last = true);
  // From now on calls may be issued by other threads beside: no call is repeated.
  void share_turns() { repeats_ = false; }
  Order& order(const CallFacts& facts) {
    if (!is_transfer(facts)) return collectives_;
    return (facts.sending ? sends_ : receives_)[static_cast<size_t>(facts.peer)];
  }
  // One-sided calls, which wait for no turn.
  Order& one_sided() { return one_sided_; }
  // How many operations were issued and have not ended.
  uint64_t under_way() const;
  bool idle() const { return under_way() == 0; }
  // Our side of this call of a peer was issued.
  bool has_met(Rank peer, CallKey theirs) const;
  // An operation ends at the latest by its timeout. Does not wait in a process that was forked meanwhile.
  void wait_until_idle() const;

  // As a wait for peers begins: who has to wait takes a copy.
  const Wait& fresh_wait() const { return wait_; }
  // One thread at a time sleeps on the mesh's poller; who finds it taken sleeps by the clock.
  std::mutex& poller_mutex() { return poller_mutex_; }

  // Registers memory, of the host or of a device, as this rank's part of the next window; with the first one peers can
  // signal to this rank.
  Result<uint32_t> register_memory(std::span<std::byte> memory);
  // Null before that.
  Signals* signals() const { return signals_.get(); }
  // Has them, and tells peers of them, if that was not done before.
  void have_signals();

  // For packets of peers' kernels; null: this rank has none.
  const std::shared_ptr<Inbox>& inbox() const { return inbox_; }

  // Kernels have made the last call on device memory of no window.
  bool expects_kernels() const { return expects_kernels_; }
  void expect_kernels(bool expects) { expects_kernels_ = expects; }

  // Before any call of the user's: forgets what was decided, and chooses by these from now on.
  void choose_by(Forced forced, Tuning tuning, int32_t lanes);
  Planner& planner() { return planner_; }

  // Finds out which buffers of a collective are in windows. At the first use of a window it waits until all ranks have
  // registered theirs.
  Status find_windows(Request& request) const;
  // What comes before the call: ranks tell each other where their buffers are (here: not where kernels reach them), or
  // agree on what was explored. Null: nothing does.
  Result<std::unique_ptr<Operation>> prelude_of(const Request& request);
  // Of a call that is explored: learns what ranks have agreed on, and gives what they agree by before this call. Null:
  // there is nothing to be agreed on.
  Result<std::unique_ptr<Operation>> agreement_before(const Request& request);
  // For operations. What is recalled stays until the next request is recalled.
  Result<RecentCall*> recall(const Request& request);
  void bind(const Request& request, const RecentCall& recent, Call& call);
  // Of a call whose turn has come, or would now: the pipes are its own.
  void bind_for_repeat(RecentCall& recent, const Call& call);
  // A call that had begun has failed with `why`. Peers that have not heard of it may still read its buffers in windows,
  // and shall not end theirs well; what they still write must not reach ours. Returns `why`, and what else is to be
  // said.
  Status give_up(const Request& request, const Call& call, Status why);
  // A peer that has given up a call on windows: what was read there meanwhile may be anything. -1: none has.
  Rank given_up_by() const;
  // Gives a call whose turn has come its scratch memory.
  Status lend_memory(Call& call);
  // The same for the pieces of an exact one.
  Result<std::byte*> lend_for_pieces(const Call& call) { return pieces_.at_least(ExactPieces::memory_bytes(call)); }

  // Numbers the communicators that are made of this one in one way, so that each has an identity of its own.
  uint32_t next_child(const std::string& way) { return children_[way]++; }

  Reductions& reductions() { return reductions_; }
  const Reductions& reductions() const { return reductions_; }

 private:
  static constexpr int kRecentBits = 4;

  struct Memory {
    std::unique_ptr<std::byte[], void (*)(std::byte*)> bytes{nullptr, nullptr};
    size_t size = 0;
    Result<std::byte*> at_least(size_t wanted);
  };

  void have_inbox();
  Status tell_of_inbox(std::shared_ptr<Inbox> inbox);
  size_t lends_up_to(const Plan& plan, bool in_place) const;
  PipeEnds& pipes_of(const CallArguments& call) { return is_transfer(call) ? transfer_pipes_ : collective_pipes_; }
  // Scattered: most counts are multiples of a power of two.
  RecentCall& recent_of(const CallArguments& arguments) {
    if (is_transfer(arguments)) return recent_transfer(arguments);
    const uint64_t kind = static_cast<uint64_t>(arguments.collective) << 40;
    return recent_[(arguments.count ^ kind) * 0x9E3779B97F4A7C15u >> (64 - kRecentBits)];
  }
  RecentCall& recent_transfer(const CallArguments& arguments);
  bool is_like_recent(const RecentCall& recent, const CallArguments& arguments) const {
    return repeats_ && arguments == recent.facts && recent.fast_path.bound();
  }
  template <bool kTransfer>
  Repeated make_again(RecentCall& recent, const void* send, void* recv, const Wait* wait);
  Status wait_for_times(const Explored& explored) const;
  void keep_what_was_found();

  System& system_;
  const int64_t process_ = system_.memory.process();
  std::shared_ptr<Mesh> mesh_;
  CommunicatorOptions options_;
  std::string prefix_;
  const Placement placement_;
  const Crowd crowd_;
  CoreSharing core_sharing_;
  const Wait wait_;
  const SliceLimit slice_limit_;
  Planner planner_;
  FlightLane* const lane_;  // null: not recorded
  std::shared_ptr<CallLog> call_log_;
  PipeEnds collective_pipes_;
  PipeEnds transfer_pipes_;
  Order collectives_;
  std::vector<Order> sends_;     // by peer
  std::vector<Order> receives_;  // by peer
  Order one_sided_;
  std::unique_ptr<Signals> signals_;
  std::shared_ptr<Inbox> inbox_;
  bool has_wished_inbox_ = false;
  std::span<std::byte* const> boards_;  // all ranks' signals, once a call has used windows
  std::array<RecentCall, 1 << kRecentBits> recent_;
  std::vector<std::unique_ptr<RecentCall>> recent_transfers_;  // by peer and direction; null: none yet
  bool repeats_ = true;
  Memory scratch_;
  Memory pieces_;
  std::atomic<bool> expects_kernels_{false};
  const CallPlaces not_reached_;
  std::vector<CallPlaces> told_;  // by the others before a call whose buffers are not reached; nobody reads it
  std::mutex poller_mutex_;
  std::map<std::string, uint32_t> children_;  // how many, by way
  Reductions reductions_;
  Operation blocking_;
  Operation blocking_transfer_;
};

}  // namespace hocket
