// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The mutual proof that both ends of a new connection know a communicator's key, before either believes anything else:
//
//   dialer -> acceptor   hello      who I am, whom I want, which version, a nonce
//   acceptor -> dialer   challenge  a nonce, or why not
//   dialer -> acceptor   proof      HMAC(key, hello, challenge)
//   acceptor -> dialer   verdict    HMAC(key, hello, challenge, verdict), or why not
//
// The dialer proves first, so a stranger who knocks learns nothing that depends on the key. Neither side ever reads
// beyond the exchange, so the socket can be handed on. Nothing blocks; input is bounded. Knows no reactor.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/system.h"

namespace hocket {

enum class Purpose : uint8_t { kCheckIn = 1, kLink = 2, kData = 3 };

inline constexpr int32_t kRoot = -1;  // the rank that a check-in dials

// Travels in the clear; nothing here is secret.
struct Hello {
  Purpose purpose = Purpose::kLink;
  std::string id;  // public, kKeyBytes
  int32_t from = kRoot;
  int32_t to = kRoot;
  uint8_t pipe_class = 0;  // kData only, as the next three
  uint16_t lane = 0;
  uint8_t transport = 0;
  uint16_t connection = 0;  // of the pipe, counted from 0
  bool sealed = false;      // what follows the handshake is encrypted (sealed_socket.h)
};

enum class Refusal : uint8_t { kNone = 0, kVersion, kUnknown, kClosed, kWrongKey, kDuplicate, kNotAllowed, kSealing };

// What the acceptor decides at the hello: the key to prove, a refusal, or nothing yet (ask again later).
struct Admission {
  Refusal refusal = Refusal::kNone;
  std::string key;
};

class Handshake {
 public:
  enum class State : uint8_t { kPending, kDone, kFailed };

  Handshake(std::unique_ptr<Socket> socket, uint32_t library_version);
  virtual ~Handshake() = default;

  // Goes as far as the socket allows. Once not kPending, it stays so.
  State advance();
  State state() const { return state_; }
  Socket& socket() const { return *socket_; }
  // Of a successful exchange: the socket, sealed if that was said, with keys that no other connection has.
  std::unique_ptr<Socket> take_socket();
  // Of a failed exchange: why, naming the other end's address; and the refusal that was said or heard, if one was.
  const Status& status() const { return status_; }
  Refusal refusal() const { return refusal_; }
  // Somebody took bytes from us: the connection was made.
  bool was_answered() const { return answered_; }

 protected:
  struct Keys {
    std::string send, receive;
  };
  // After the proofs; none: what follows is not sealed.
  virtual std::optional<Keys> keys() const = 0;
  virtual void step() = 0;  // called while bytes move

  // Both return true when whole; they fail the exchange when the connection breaks.
  bool flush();
  bool fill(size_t bytes);

  void finish() { state_ = State::kDone; }
  void fail(Refusal refusal, std::string message);

  const uint32_t library_version_;
  std::string in_;   // of the current message, never longer than it
  std::string out_;  // not yet sent
  std::string transcript_;

 private:
  std::unique_ptr<Socket> socket_;
  State state_ = State::kPending;
  Status status_;
  Refusal refusal_ = Refusal::kNone;
  bool answered_ = false;
};

class DialingHandshake final : public Handshake {
 public:
  DialingHandshake(std::unique_ptr<Socket> socket, uint32_t library_version, const Hello& hello, std::string key,
                   std::string nonce);
  bool was_challenged() const { return stage_ > Stage::kChallenge; }

 private:
  std::optional<Keys> keys() const override;
  void step() override;
  void on_challenge();
  void on_verdict();

  enum class Stage : uint8_t { kHello, kChallenge, kProof, kVerdict } stage_ = Stage::kHello;
  const std::string key_;
  const bool sealed_;
};

class AcceptingHandshake final : public Handshake {
 public:
  // Asked once the hello is there, again at each advance() while it answers nothing.
  using Judge = std::function<std::optional<Admission>(const Hello&)>;
  // Asked when the dialer has proved the key: may it come in now?
  using Decide = std::function<Refusal(const Hello&)>;

  AcceptingHandshake(std::unique_ptr<Socket> socket, uint32_t library_version, Judge judge, Decide decide,
                     std::string nonce);
  const Hello& hello() const { return hello_; }
  bool waits_for_judgement() const { return stage_ == Stage::kJudge; }
  // Tells a dialer who waits for a judgement that none will come.
  void expire();

 private:
  std::optional<Keys> keys() const override;
  void step() override;
  bool read_head();
  bool read_hello();
  void send_challenge();
  void check_proof();
  void refuse(Refusal refusal, std::string message);

  enum class Stage : uint8_t { kHead, kHello, kJudge, kProof, kVerdict } stage_ = Stage::kHead;
  const Judge judge_;
  const Decide decide_;
  const std::string nonce_;
  Hello hello_;
  std::string key_;
};

std::string version_text(uint32_t library_version);

}  // namespace hocket
