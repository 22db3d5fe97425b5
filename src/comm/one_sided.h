// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One-sided calls: access to a peer's part of a window, and waiting for signals. The peer need not call anything.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/last_look.h"
#include "comm/mesh.h"
#include "comm/work.h"

namespace hocket {

// What the kinds of one-sided work have in common: from issue to end, and why nothing moves.
class OneSided : public Work {
 public:
  using Work::Work;
  void issue(bool blocks = false) final;
  bool advance() final;
  bool ended() const final { return ended_; }
  bool examine(Time now) final;
  void set_waiting(bool /*waiting*/) override {}

 protected:
  // True when something moved.
  virtual bool step() = 0;
  virtual int32_t awaited() const = 0;
  virtual std::string describe() const = 0;
  // Nothing has moved for a while.
  virtual void retry() {}
  // It ends: nothing touches the caller's memory any more.
  virtual void let_go() {}
  // It does not go on because other work is before it.
  virtual bool waits_for_others() const { return false; }
  void end(Status status);
  // The call was wrong, and nothing else is.
  void refuse(const std::string& why);
  // The communicator fails.
  void fail(Code code, const std::string& why);

 private:
  bool ended_ = true;
  Time stalled_{};  // since when
  LastLook examined_;
  bool news_ = false;  // since it was examined
};

// A put, a get, an atomic operation or a signal. `local`: what a put reads and the others write.
struct RemoteCall {
  int32_t peer = 0;
  RemoteRequest request;
  void* local = nullptr;
};
std::string describe(const RemoteCall& call);

class RemoteAccess final : public OneSided {
 public:
  RemoteAccess(Communicator& communicator, RemoteCall call) : OneSided(communicator), call_(std::move(call)) {}
  void set_waiting(bool waiting) override;

 private:
  struct Piece {
    uint64_t offset;
    uint64_t bytes;
    std::shared_ptr<const RemoteAnswer> answer;
  };

  bool step() override;
  int32_t awaited() const override { return call_.peer; }
  std::string describe() const override;
  void retry() override { may_ask_ = true; }
  void let_go() override { transfer_ = nullptr; }
  bool waits_for_others() const override { return crowded_out_; }

  bool reach();
  void work_on(std::span<std::byte> part);
  // All bytes are where they belong.
  void finish_access();
  bool go_in();
  bool go_on_by_device();
  bool go_far();
  bool signal();
  void ask();
  bool take_answers();
  void refuse(const RemoteReply& reply);

  RemoteCall call_;
  bool accessed_ = false;                     // nothing is left but its signal
  uint64_t moved_ = 0;                        // bytes that are copied, or asked for
  RemoteDoor* door_ = nullptr;                // to where the device does it, or is about to
  std::unique_ptr<RemoteTransfer> transfer_;  // what it does
  uint64_t end_ = 0;                          // by which
  bool far_ = false;                          // by the peer's service thread, in pieces:
  std::deque<Piece> pieces_;
  bool crowded_out_ = false;  // too many are under way to that peer
  bool confirmed_ = false;    // the window is there: one piece need not wait for another
  bool may_ask_ = true;
  bool all_asked_ = false;
};

// Waits for so many signals of each of these.
class SignalWait final : public OneSided {
 public:
  struct Awaited {
    int32_t peer = 0;
    int32_t signal = 0;
    uint64_t count = 0;
  };
  SignalWait(Communicator& communicator, std::vector<Awaited> awaited)
      : OneSided(communicator), awaited_(std::move(awaited)) {}
  void set_waiting(bool waiting) override;

 private:
  bool step() override;
  int32_t awaited() const override { return awaited_[taken_].peer; }
  std::string describe() const override;

  std::vector<Awaited> awaited_;
  size_t taken_ = 0;    // of them
  uint64_t seen_ = 0;   // signals of the next
  bool waits_ = false;  // counted among the sleepers
};

}  // namespace hocket
