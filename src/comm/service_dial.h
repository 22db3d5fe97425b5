// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One attempt after another to reach a door at one of several addresses, until it opens or patience ends. An address
// that takes no connection has an eighth of HOCKET_TIMEOUT at a time; one that takes it and says nothing, the whole.
// Meanwhile others may be tried beside it: what a network loses twice of so short an exchange, TCP sends again only
// after 0.6 s. Service thread; destroying a dial gives it up.
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
  std::function<bool()> is_lost;  // another knows: who says nothing has no more than the try under way. May be empty
  // At an address of this host. Where nobody listens, the process is gone: others have the time of a try to tell how.
  bool is_here = false;
  bool several = false;  // at once: the door lets one of them in, and refuses the others as duplicates
  // Silence of who has taken the connection is told here, again and again, and counts as an answer: another knows
  // whether the peer lives.
  std::function<void()> on_silence;
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
  // Our proof is on its way or there: to the other side this may be an open connection.
  bool may_be_let_in() const;

 private:
  struct Attempt {
    Address address;
    std::unique_ptr<DialingHandshake> handshake;
  };

  void attempt();
  bool is_gone(const Status& no_connection) const;
  Status connect(const Address& address);
  // The newest attempt has the time of a try.
  void expect_end();
  void on_try_over();
  void on_silence(const Status& late);
  bool is_lost() const { return options_.is_lost && options_.is_lost(); }
  void advance(DialingHandshake* handshake);
  void on_failure(DialingHandshake* handshake);
  // Not any more among those under way.
  std::unique_ptr<DialingHandshake> take(const DialingHandshake* handshake);
  void close();
  void try_later(const Status& status, bool answered, Refusal refusal = Refusal::kNone);
  void finish(Result<std::unique_ptr<Socket>> socket, Refusal refusal);

  Service& service_;
  const DialOptions options_;
  const Time begun_;
  Done done_;
  std::vector<Attempt> attempts_;  // under way; newest last
  size_t connections_ = 0;         // tried so far
  int unanswered_ = 0;             // of them
  size_t in_vain_ = 0;             // of them, since somebody has answered, if anybody has
  int silent_tries_ = 0;           // the time of so many has passed since something was heard
  Duration pause_;
  Status last_failure_;
  TimerId timer_{};  // the end of a try, or of a pause
};

}  // namespace hocket
