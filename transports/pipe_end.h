// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What transports share among themselves when they open an end of a pipe. Users of pipes need only pipe.h.
#pragma once

#include <string>
#include <string_view>

#include "transports/pipe.h"

namespace hocket {

// Names one end in messages: "shm pipe to rank 3 on node-b".
std::string pipe_name(std::string_view transport, std::string_view direction, const PipeContext& context);

Status check_max_message(const PipeContext& context);

// What ends of both sorts need of a pipe over a socket: the limit is one, and there is a socket, which the poller
// watches from now on.
Status check_socket(const PipeContext& context, const Offer& offer, const std::string& pipe);

// Whether two lists of words, divided by blanks, share one that begins so.
bool share_word(std::string_view ours, std::string_view theirs, std::string_view beginning);

// An end's name in messages, and why it failed: the first reason stays.
class PipeState {
 public:
  explicit PipeState(std::string name) : name_(std::move(name)) {}

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  void fail(Code code, std::string_view what);
  void fail(const Status& status) { fail(status.code(), status.message()); }
  // A sender's user has asked for, or committed, so many bytes; false, and the pipe has failed: that was too much.
  bool may_ask(size_t bytes, size_t max_message);
  bool may_commit(size_t bytes, size_t reserved);

 private:
  const std::string name_;
  Status status_;
};

}  // namespace hocket
