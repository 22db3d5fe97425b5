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
  void end(Status status);
  // The call was wrong, and nothing else is.
  void refuse(const std::string& why);

 private:
  // The communicator fails.
  void fail(Code code, const std::string& why);

  bool ended_ = true;
  Time stalled_{};   // since when
  Time examined_{};  // last
  bool moved_ = false;
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

  bool reach();
  void work_on(std::span<std::byte> part);
  bool signal();
  bool ask();
  bool take_answers();
  void refuse(const RemoteReply& reply);

  RemoteCall call_;
  bool accessed_ = false;  // nothing is left but its signal
  bool far_ = false;       // by the peer's service thread, in pieces:
  std::deque<Piece> pieces_;
  uint64_t asked_ = 0;      // bytes
  bool confirmed_ = false;  // the window is there: one piece need not wait for another
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
  size_t taken_ = 0;  // of them
};

}  // namespace hocket
