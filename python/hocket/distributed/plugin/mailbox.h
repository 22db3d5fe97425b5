// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Messages with tags. Hocket's own match in the order in which they were sent, so each is sent after a header that has
// the tag; who waits for one takes in all that comes, and keeps what nobody has asked for yet.
#pragma once

#include <hocket/hocket.h>

#include <list>
#include <mutex>

#include "lane.h"
#include "tensors.h"

namespace hocket_torch {

class Mailbox {
 public:
  static constexpr int kAnybody = -1;
  using WorkRef = c10::intrusive_ptr<Work>;
  using Milliseconds = std::chrono::milliseconds;

  // The communicator's only user.
  explicit Mailbox(hocketComm_t comm) : comm_(comm) {}

  // What goes before a message, for the work to keep.
  static at::Tensor header(const at::Tensor& message, int tag);
  // Sends both.
  void send(const WorkRef& work, const at::Tensor& header, const at::Tensor& message, int to, Milliseconds limit);
  // The work ends at once if the message was kept; else it begins when look() has taken the message in.
  void post(const WorkRef& work, const at::Tensor& into, int from, int tag);
  // Takes in what has come, until it is what this work waits for.
  bool look(const Work& work);
  // Nobody waits any more.
  void close();

 private:
  struct Posted {
    WorkRef work;
    at::Tensor into;
    int from;
    int tag;
  };
  struct Kept {
    at::Tensor message;
    int from;
    int tag;
    uint64_t mark;  // its end, on the lane from that rank
  };

  bool take_next();
  std::shared_ptr<Lane> receive(const at::Tensor& into, int from);

  const hocketComm_t comm_;
  std::mutex mutex_;
  Lanes lanes_;               // this and what follows: guarded by mutex_
  std::list<Posted> posted_;  // oldest first; none of them matches any of kept_
  std::list<Kept> kept_;
};

}  // namespace hocket_torch
