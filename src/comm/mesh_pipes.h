// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The ends of pipes that one rank holds, and the means to wake the other end's caller. Any thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/mesh_wire.h"
#include "transports/pipe.h"

namespace hocket {

class PipeTable {
 public:
  // Null until put(). `must_open` becomes true for one caller, who opens the pipe or calls abandon().
  Sender* sender(const PipeName& name, bool* must_open);
  Sender* find_sender(const PipeName& name) const;
  Receiver* receiver(const PipeName& name) const;
  // That have passed our end of a pipe; 0 where there is none.
  uint32_t messages(const PipeName& name, PipeEnd end) const;
  // That many have been released at the other end of a pipe on which we send.
  void note_released(const PipeName& name, uint32_t messages) const;
  // False when there is one already; then the new one is destroyed.
  bool put(const PipeName& name, std::unique_ptr<Sender> sender);
  bool put(const PipeName& name, std::unique_ptr<Receiver> receiver);
  void abandon(const PipeName& name);
  // Of a pipe's sender and receiver here, which have one name, where both are of that transport.
  std::shared_ptr<Ties> ties(const PipeName& name, const Transport& transport);

  // Moves what waits in this process; true when nothing does, or can any more.
  bool flush();
  void clear();

 private:
  mutable std::mutex mutex_;
  std::map<PipeName, std::unique_ptr<Sender>> senders_;  // null: being opened
  std::map<PipeName, std::unique_ptr<Receiver>> receivers_;
  std::map<std::pair<PipeName, const Transport*>, std::shared_ptr<Ties>> ties_;
};

// Wakes whoever drives a peer on this host, from the time its handle is known.
class PeerWaker {
 public:
  explicit PeerWaker(Network& network) : network_(network) {}
  ~PeerWaker();
  PeerWaker(const PeerWaker&) = delete;
  PeerWaker& operator=(const PeerWaker&) = delete;

  // Takes the handle; keeps the first.
  void set(Handle handle);
  void wake() const;

 private:
  Network& network_;
  std::atomic<Handle> handle_ = kNoHandle;
};

}  // namespace hocket
