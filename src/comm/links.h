// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A link: a stream of bounded frames over an authenticated connection, with heartbeats, that may go on over another
// connection. Knows no rank and no frame's meaning. Lives on the service thread; its owner destroys it, also from
// inside its callbacks.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/reactor.h"
#include "base/status.h"
#include "base/system.h"
#include "comm/links_history.h"

namespace hocket {

class Heart;

class Link {
 public:
  // Owns the handles until somebody takes them.
  using FrameHandler = std::function<void(std::string_view frame, std::vector<Handle> handles)>;
  enum class End : uint8_t { kClosed, kSilent, kMisbehaved };
  using EndHandler = std::function<void(End end, const Status& why)>;
  using QuietHandler = std::function<void()>;

  struct Context {
    System& system;
    Reactor& reactor;
    Heart& heart;
  };

  // Frames up to `max_frame` bytes are accepted.
  Link(const Context& context, std::unique_ptr<Socket> socket, size_t max_frame);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Frames may arrive from now on. `on_end` comes at most once, and is the last call.
  Status start(FrameHandler on_frame, EndHandler on_end);
  // From now on what was sent is kept, for other connections. `on_quiet` comes again and again while nothing is heard
  // for half of the time that ends the link.
  void outlive_connections(QuietHandler on_quiet);
  // Goes on over another connection, on which the other end's link does the same. What is not kept ends it; a
  // connection that breaks before the other end has spoken counts as none.
  Status move_to(std::unique_ptr<Socket> socket);
  // Writes at once what the socket takes; a failure is reported later. Handles stay the caller's and must live until
  // flushed(). They travel on unix sockets only.
  void send(std::string frame, std::vector<Handle> handles = {});
  bool flushed() const { return queue_.empty(); }
  // The other end's system has all of it.
  bool arrived() const { return queue_.empty() && socket_->under_way() == 0; }
  // Something that we sent before `time` has not arrived, and nothing was heard since. Known of links that outlive
  // connections.
  bool is_stuck_since(Time time) const { return !arrived() && std::max(heard_, under_way_since_) < time; }
  // One more frame for a peer that was given up, if it happens to fit.
  void send_last(const std::string& frame);
  void beat();
  // Ends the link when nothing was heard since `oldest`, and calls it quiet when nothing was since `recently`.
  void expect_news_since(Time oldest, Time recently);
  // The other end beats as its own timeout has it, which may be longer than ours.
  void be_patient(Duration timeout) { patience_ = timeout; }
  Duration patience() const { return patience_; }
  // So much of the time before `now` was not ours: we could not have heard anything.
  void forgive(Duration lateness, Time now) { heard_ = std::min(heard_ + lateness, now); }

  std::string peer_name() const { return socket_->peer_name(); }

 private:
  struct Outgoing {
    std::string bytes;
    std::vector<Handle> handles;
  };

  void on_news();
  // These return false when the link has ended, perhaps by destruction: touch nothing then.
  bool read();
  bool take(std::string_view bytes);
  bool deliver_frames();
  bool write();
  // As much as the socket takes.
  Status push();
  bool end(End how, const Status& why);
  bool misbehaved(const std::string& what);
  Result<size_t> write_first();

  const Context context_;
  std::unique_ptr<Socket> socket_;
  const size_t max_frame_;
  FrameHandler on_frame_;
  EndHandler on_end_;
  bool ended_ = false;
  Time heard_;
  Duration patience_{};     // at least
  Time under_way_since_{};  // when something was sent while all before had arrived
  QuietHandler on_quiet_;
  std::string in_;
  std::vector<Handle> handles_in_;
  std::deque<Outgoing> queue_;
  size_t queued_bytes_ = 0;
  LinkHistory history_;
  std::vector<std::unique_ptr<Socket>> left_behind_;  // until the other end has moved, too
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace hocket
