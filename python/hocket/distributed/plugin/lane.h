// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A lane: a queue of Hocket, the works under way on it, and who completes their futures.
#pragma once

#include <ATen/core/ivalue.h>
#include <hocket/hocket.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace hocket_torch {

class Work;

// Completes the futures of works in the order in which those were issued. What is chained to a future may wait for
// another future of the same lane (PowerSGD's hook does): so whoever completes one first sees to it that another thread
// waits for the next.
class Completer {
 public:
  Completer();
  ~Completer();
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;
  void add(c10::intrusive_ptr<Work> work);

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;  // also the threads'
};

class Lane {
 public:
  Lane();
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  hocketStream_t stream() const { return hocketQueueStream(queue_); }
  // Names all that was issued so far.
  uint64_t mark() const;
  bool done(uint64_t mark) const;
  bool idle() const { return done(mark()); }
  // *done: 0 when the limit (0: none) came first.
  hocketResult_t wait(uint64_t mark, std::chrono::milliseconds limit, int* done) const;

  // Keeps a work, and so its tensors, until it has ended.
  void hold(c10::intrusive_ptr<Work> work);
  void complete(c10::intrusive_ptr<Work> work);

 private:
  hocketQueue_t queue_ = nullptr;
  std::mutex mutex_;
  std::deque<c10::intrusive_ptr<Work>> under_way_;  // guarded by mutex_
  std::unique_ptr<Completer> completer_;            // guarded by mutex_
};

// Of transfers: for each peer one for what goes to it, and one for what comes from it; and for batches as many as are
// under way at once, so that none waits for another. Whoever has them guards them.
class Lanes {
 public:
  const std::shared_ptr<Lane>& to(int peer) { return of(to_, peer); }
  const std::shared_ptr<Lane>& from(int peer) { return of(from_, peer); }
  const std::shared_ptr<Lane>& idle();

 private:
  using ByPeer = std::map<int, std::shared_ptr<Lane>>;
  static const std::shared_ptr<Lane>& of(ByPeer& lanes, int peer);

  ByPeer to_;
  ByPeer from_;
  std::vector<std::shared_ptr<Lane>> of_batches_;
};

}  // namespace hocket_torch
