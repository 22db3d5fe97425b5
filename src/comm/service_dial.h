// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One attempt after another to reach a door at one of several addresses, until it opens or patience ends. An address
// that takes no connection has an eighth of HOCKET_TIMEOUT at a time; one that takes it and says nothing, the whole.
// Service thread; destroying a dial gives it up.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/reactor.h"
#include "comm/handshake.h"

namespace hocket {

class Service;

struct DialOptions {
  std::vector<Address> addresses;  // tried in turn
  Hello hello;
  std::string key;
  Time unreachable_until;  // how long to try (again) while nothing answers at any of them
  Time unknown_until;      // how long to try again while something answers that does not (yet) know the communicator
};

class Dial {
 public:
  // The connection, or why there is none and what was refused last. May destroy the dial.
  using Done = std::function<void(Result<std::unique_ptr<Socket>> socket, Refusal refusal)>;

  Dial(Service& service, DialOptions options, Done done);
  ~Dial();
  Dial(const Dial&) = delete;
  Dial& operator=(const Dial&) = delete;

  // Why the newest attempt that has ended came to nothing; ok: none has.
  const Status& last_failure() const { return last_failure_; }

 private:
  void attempt();
  Status connect(const Address& address);
  // The attempt may last for the time of a try more, or ends.
  void expect_end(const Address& address);
  void advance();
  void close();
  void try_later(const Status& status, bool answered);
  void finish(Result<std::unique_ptr<Socket>> socket, Refusal refusal);

  Service& service_;
  const DialOptions options_;
  Done done_;
  size_t attempts_ = 0;
  int unanswered_ = 0;    // of them
  size_t in_vain_ = 0;    // since somebody has answered, if anybody has
  int silent_tries_ = 0;  // the time of so many has passed since the newest one's connection was made
  Duration pause_;
  Status last_failure_;
  std::unique_ptr<DialingHandshake> handshake_;
  TimerId timer_{};  // the attempt's deadline, or the end of a pause
};

}  // namespace hocket
