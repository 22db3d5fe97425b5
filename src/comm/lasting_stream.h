// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A stream of bytes each way between two hosts that outlives its connections. Each side keeps what the other has not
// told to have; when the connection is lost, the mesh makes another one, both sides go on where the other has come to,
// and the pipes' ends notice nothing, unless the peer is gone. Knows no pipe and no message.
//
// The pipes' ends use socket(), on the threads that drive them; all else is for the service thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "base/system.h"
#include "comm/kept_bytes.h"

namespace hocket {

class LastingStream : public std::enable_shared_from_this<LastingStream> {
 public:
  // What each side tells the other.
  struct Report {
    uint16_t connection = 0;  // counted from 0
    bool lost = false;        // and another one is wanted
    uint64_t received = 0;    // bytes, over all connections
    uint32_t kept = 0;        // bytes that this side keeps at most of what it sends
  };

  // `on_news`, on any thread, must not call back: the connection is lost, or a report is due. `threads` outlive this.
  // `budget`: of what is kept, as KeptBytes has it.
  LastingStream(Threads& threads, std::shared_ptr<Poller> poller, std::unique_ptr<Socket> first,
                std::function<void()> on_news, std::shared_ptr<Budget> budget = nullptr);
  LastingStream(const LastingStream&) = delete;
  LastingStream& operator=(const LastingStream&) = delete;

  // For the pipe's end, once; the poller watches what it stands for already when another connection follows.
  std::unique_ptr<Socket> socket();

  // The peer has left or is lost: no other connection follows, and the pipe's end hears when this one is lost, too.
  void end();
  // Gives its connection up: another one is wanted.
  void drop(const std::string& why);
  // Goes on over another connection.
  void adopt(std::unique_ptr<Socket> socket, uint16_t connection);
  // Why there is no connection now; empty: there is one, or none is needed any more.
  std::string loss() const;
  uint16_t connection() const;
  // What is to be told now.
  Report report();
  // False: it makes no sense.
  bool hear(const Report& report);
  // Sends again what was lost, once it is known what that is. False: some of it has still to wait.
  bool resend();

 private:
  class End;

  // Held while the socket is used, which may yield in a simulation: who waits for it yields too, so that its holder
  // goes on.
  class Mutex {
   public:
    explicit Mutex(Threads& threads) : threads_(threads) {}
    void lock() {
      while (taken_.test_and_set(std::memory_order_acquire)) threads_.yield();
    }
    void unlock() { taken_.clear(std::memory_order_release); }

   private:
    Threads& threads_;
    std::atomic_flag taken_;
  };

  Result<size_t> send(std::span<const std::span<const std::byte>> parts);
  Result<size_t> receive(std::span<std::byte> into);
  void close();
  // With mutex_ held:
  Result<size_t> nothing() const;
  void lose(const std::string& why);
  void want_another(const std::string& why);
  Result<bool> catch_up();
  bool keep_piece(std::span<const std::span<const std::byte>> parts, size_t offset);
  size_t tell_every() const;

  const std::shared_ptr<Poller> poller_;
  const std::function<void()> on_news_;
  const std::string peer_name_;

  mutable Mutex mutex_;
  std::unique_ptr<Socket> socket_;  // null: nothing can come over it any more, or closed
  bool closed_ = false;
  bool ended_ = false;
  std::string loss_;  // why another one is wanted
  uint16_t connection_ = 0;
  // What we send, in bytes: acked_ <= written_ <= sent_ <= copied_. Between acked_ and sent_ they are kept.
  KeptBytes kept_;
  uint64_t copied_ = 0;  // there, though a full socket left the last of it
  uint64_t sent_ = 0;
  uint64_t written_ = 0;  // to this connection
  uint64_t acked_ = 0;
  bool resuming_ = false;  // the other side has not yet said where
  uint16_t reported_ = 0;  // the newest connection of which it has; the report may come before the connection
  // What we receive:
  uint64_t received_ = 0;
  uint64_t told_ = 0;
  size_t peer_keeps_ = KeptBytes::kFirst;  // at least
};

}  // namespace hocket
