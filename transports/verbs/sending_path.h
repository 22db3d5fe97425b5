// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The way that a sender's frames take to the receiver's ring: a queue pair of one of this host's ports, another one
// when that breaks, and the pipe's socket when no port is left. After each change the receiver says how far it has
// come; what it has not got is sent again, which is the sender's part. Knows no message.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "transports/pipe.h"
#include "transports/verbs/burst.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/rails.h"
#include "transports/verbs/record.h"
#include "transports/verbs/silence.h"

namespace hocket {

class SendingPath {
 public:
  // What is sent lies in `mirror`. The rails must outlive it.
  SendingPath(const PipeContext& context, const VerbsTable& table, VerbsRails& rails, std::span<std::byte> mirror,
              std::shared_ptr<Socket> socket, std::string pipe);
  ~SendingPath();
  SendingPath(const SendingPath&) = delete;
  SendingPath& operator=(const SendingPath&) = delete;

  // Shows the receiver a queue pair, unless all ports are broken. Fails when the port gives none.
  Status open();
  // Looks what has happened, and goes another way where this one has broken.
  Status look();
  // There is news at the poller when something happens.
  Status arm();

  // The receiver awaits frames.
  bool is_open() const { return open_; }
  // So long is the receiver's ring; known since the path was open once.
  size_t ring_bytes() const { return ring_bytes_; }
  bool has_room() const { return pair_ == nullptr || pair_->has_room(); }
  // A frame, without what is before its header, for that position of the stream. Lost when the path is not open.
  void send(uint64_t position, std::span<const std::byte> frame, RingAmount amount);
  // By which the receiver's device reads these bytes; 0: not at all.
  uint32_t key_for(std::span<const std::byte> bytes) const;
  uint32_t number() const { return path_; }
  // The receiver wants what is lent by the frame at this position to be given to it.
  std::optional<uint64_t> take_request() { return std::exchange(request_, std::nullopt); }
  Status give(uint64_t position, std::span<const std::byte> bytes, bool beyond_host);
  // Nothing more is sent, and the receiver reads nothing more.
  void close();
  // The receiver's device cannot read what is lent by this way: what follows is copied.
  void stop_lending() { lends_ = false; }

  // Everything from here on is to be sent again, now.
  std::optional<uint64_t> take_resumption() { return std::exchange(resumption_, std::nullopt); }

  // The receiver has all that was ever sent here, and that is everything before this position.
  bool has_delivered(uint64_t position) const;
  const RingTotal& returned() const { return returned_; }
  // The receiver has left, with so much.
  std::optional<uint64_t> farewell() const { return farewell_; }
  std::string peer_name() const { return records_.peer_name(); }

 private:
  Status open_pair(size_t port);
  void drop_pair();
  // Tells the receiver what way the frames go from now on.
  void turn();
  void lose(std::string_view why);
  // Finds another way than a port that has broken.
  void turn_elsewhere();
  Status poll();
  // Once in a while: is the port still up, and is there a better one?
  void watch();
  Status hear();
  Status hear(const Record& record);
  Status on_answer(const Answer& answer);
  Status check_ring(uint32_t bytes) const;
  Status on_card(const VerbsCard& card);
  Status check_returned() const;
  Status on_stand(const Stand& stand);

  System& system_;
  Poller& poller_;
  const VerbsTable& table_;
  VerbsRails& rails_;
  const std::span<std::byte> mirror_;
  const std::string pipe_;
  Records records_;
  std::optional<size_t> port_;  // none: the socket
  std::unique_ptr<QueuePair> pair_;
  VerbsGid gid_;
  RemoteRing ring_;        // of the receiver
  size_t ring_bytes_ = 0;  // the same by every way
  uint32_t path_ = 0;
  bool open_ = false;
  bool proved_ = false;   // the port has carried something
  bool lends_ = true;     // by this way
  bool settled_ = true;   // when the path was left, everything had arrived
  RingTotal sent_;        // of the stream
  uint64_t posted_ = 0;   // of those bytes, so far by this way
  uint64_t arrived_ = 0;  // of those bytes, as far as the receiver has told
  RingTotal returned_;
  std::optional<uint64_t> resumption_;
  std::optional<uint64_t> request_;
  std::optional<uint64_t> farewell_;
  uint32_t looks_ = 0;
  Silence silence_;
  Burst burst_;
  Time next_watch_{};
  Time next_change_{};
};

}  // namespace hocket
