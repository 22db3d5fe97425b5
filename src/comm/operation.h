// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// An operation: one call on one communicator, from issue to end. It waits for its turn among the calls before it, runs
// its execution, and finds out why it does not go on when it does not.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/system.h"
#include "comm/call_log.h"
#include "comm/last_look.h"
#include "comm/mesh.h"
#include "comm/request.h"
#include "comm/work.h"
#include "execute/exact.h"
#include "execute/execution.h"

namespace hocket {

// Calls that must run one after the other: the collectives of a communicator; its sends to one peer; its receives from
// one peer. A call takes a number when issued and runs when all lower numbers have ended.
struct Order {
  std::atomic<uint64_t> issued{0};
  std::atomic<uint64_t> ended{0};
  // Stands for all calls that have had their turn; the call whose turn it is changes it. Messages carry its upper half,
  // so that ranks whose calls differed once never take each other's messages again, however alike their later calls
  // are.
  uint64_t history = 0;
  static uint32_t mark_of(uint64_t history) { return static_cast<uint32_t>(history >> 32); }
  uint64_t with(uint32_t fingerprint) const { return (history + 2 * uint64_t{fingerprint} + 1) * 0x9E3779B97F4A7C15u; }
};

struct RecentCall;

class Operation final : public Work {
 public:
  Operation(Communicator& communicator, Pipes& pipes);

  // Plans the call; the one before, if any, has ended.
  Status prepare(Request&& request);
  // The same for one of which the issuing thread awaits the end: the request stays, and so does what its communicator
  // recalls.
  Status prepare_awaited(Request& request);
  // The call that is prepared and issued next has begun, and its fast path has made so many of its slices. Nothing: it
  // has not. If it cannot be prepared, its communicator fails.
  void go_on_from(std::optional<size_t> slices) { repeated_ = slices; }
  // Takes a place in the order of its kind.
  void issue(bool blocks = false) override;
  bool advance() override;
  bool ended() const override { return state_ == State::kEnded; }
  bool examine(Time now) override;
  void set_waiting(bool waiting) override;
  Duration next_nap() override;
  // Its turn has come.
  bool has_begun() const { return state_ != State::kIssued; }
  // Of what is prepared and not issued: its buffers lie here, as they lay.
  void move_buffers(std::byte* send, std::byte* recv);
  // It is made instead of the other one, which was issued and has not begun.
  void take_turn_of(Operation& other);
  // Becomes true when it has ended well.
  void tell(std::atomic<bool>* when_done) { done_ = when_done; }

 private:
  enum class State : uint8_t { kEnded, kIssued, kRunning, kMismatched };

  Result<RecentCall*> plan(Request& request);
  Result<RecentCall*> plan_anew(Request& request);
  bool may_bind_now() const;
  const CallFacts& named() const { return request_->precedes == nullptr ? request_->facts : *request_->precedes; }
  void enter(bool blocks);
  void begin();
  void record();
  Status start(size_t slices_done);
  bool run();
  void withdraw();
  void stop_waiting();
  void end_well();
  void end(Status status);
  void fail(Code code, const std::string& why);
  // The text names a call.
  void fail_as(Code code, const std::string& text);
  void fail_by_mismatch();
  void look_into(Time now);
  bool bytes_came(Rank peer);
  void compare_pipes(Time now);
  void look_into_mismatch(Time now);
  bool contradicts(Rank peer);
  bool crosses(Rank peer) const;
  bool is_alone() const;
  Rank suspect() const;
  bool is_present(Rank peer) const;
  bool differs();
  std::string who_left() const;
  // About the peer's call so many before this one.
  void ask(Rank peer, uint64_t back, Time now);
  bool read_answer();
  void give_up(Rank peer);
  std::string what_it_called() const;
  bool transfer() const { return is_transfer(request_->facts); }
  CallKey our_key(uint64_t back) const;
  CallKey peers_key(uint64_t back) const;

  Execution execution_;
  Request kept_;
  const Request* request_ = &kept_;  // call_ points into it
  RecentCall* recent_ = nullptr;     // of an awaited call that may be repeated
  Call call_;
  ExactPieces pieces_;                  // of an exact one
  std::unique_ptr<Operation> prelude_;  // takes the turn before ours; null: none
  bool tells_ = false;                  // it tells places, each time that the call is issued
  Operation* before_ = nullptr;         // the prelude, while it has not ended
  std::atomic<bool>* done_ = nullptr;   // to be told; null: nobody asks
  int64_t* time_ = nullptr;             // nanoseconds, of a trial
  Time begun_{};
  std::optional<size_t> repeated_;  // slices that the fast path has made of the next call
  Order* order_ = nullptr;
  uint64_t number_ = 0;
  bool blocks_ = false;
  State state_ = State::kEnded;
  // While nothing moves:
  uint64_t moves_ = 0;
  uint64_t moves_examined_ = 0;
  Time stalled_{};     // since when
  Duration waited_{};  // before that, in this call
  LastLook examined_;
  Rank asked_ = -1;    // the peer whose call we have asked for ...
  uint64_t back_ = 0;  // ... so many before this one
  Time asked_at_{};
  Time compared_at_{};                // how far both ends of the pipes have come
  std::optional<CallReport> theirs_;  // its newest answer
  std::vector<Rank> present_;         // peers that are in this call
  bool crossed_ = false;              // by that answer
  bool farewell_seen_ = false;
  uint64_t arrived_ = 0;  // bytes of messages that have begun to come, when last asked
  bool waits_ = false;    // and the call log says so
};

}  // namespace hocket
