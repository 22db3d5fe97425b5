// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pauses double from a few milliseconds, so that a peer that is just starting is met soon and one that starts late is
// not bothered.
#include "comm/service_dial.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/handshake_crypto.h"
#include "comm/service.h"

namespace hocket {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(2);
constexpr Duration kLongestPause = std::chrono::milliseconds(200);
constexpr size_t kNonceBytes = 16;
// Packets may be lost, and the kernel repeats its request for a connection only after a second. Whoever answers none of
// so many is given up: where we run seldom, that takes longer than the timeout.
constexpr int kTriesPerTimeout = 8;

Duration time_of_a_try(const Service& service) { return service.options().timeout / kTriesPerTimeout; }

// A process that is stopped takes connections and bytes (its kernel does) and says nothing. One that lives tells within
// half of the timeout that it does not know us yet; a root, at the end of its patience, which its refusal must precede.
int silent_tries(const Service& service, Purpose purpose) {
  if (purpose != Purpose::kCheckIn) return kTriesPerTimeout;
  const Duration patience = service.options().handshake_timeout * 3 / 2;
  return std::max(kTriesPerTimeout, static_cast<int>(patience / time_of_a_try(service)));
}

}  // namespace

Dial::Dial(Service& service, DialOptions options, Done done)
    : service_(service),
      options_(std::move(options)),
      done_(std::move(done)),
      in_vain_(options_.addresses.size()),
      pause_(kFirstPause) {
  timer_ = service_.reactor().at(service_.system().clock.now(), [this] { attempt(); });
}

Dial::~Dial() { close(); }

void Dial::close() {
  service_.reactor().cancel(timer_);
  if (handshake_ != nullptr) service_.reactor().unwatch(handshake_->socket().handle());
  handshake_.reset();
}

void Dial::attempt() {
  const Address& address = options_.addresses[attempts_++ % options_.addresses.size()];
  const Status status = connect(address);
  if (!status.ok()) return try_later(status, false);
  silent_tries_ = 0;
  expect_end(address);
  advance();
}

// Who has made a connection may have let us in already, and must not find it closed.
void Dial::expect_end(const Address& address) {
  timer_ = service_.reactor().at(service_.system().clock.now() + time_of_a_try(service_), [this, address] {
    const bool is_connected = handshake_->was_answered();
    if (is_connected && ++silent_tries_ < silent_tries(service_, options_.hello.purpose)) return expect_end(address);
    const Status late(Code::kTimeout, fmt::format("{} did not answer in time", address));
    if (is_connected || ++unanswered_ >= kTriesPerTimeout) return try_later(late, false);
    last_failure_ = late;
    close();
    attempt();
  });
}

Status Dial::connect(const Address& address) {
  Result<std::string> nonce = random_bytes(kNonceBytes);
  if (!nonce.ok()) return nonce.status();
  Result<std::unique_ptr<Socket>> socket = service_.system().network.connect(address);
  if (!socket.ok()) return socket.status();
  const Handle handle = (*socket)->handle();
  Hello hello = options_.hello;
  hello.sealed = service_.seals(address);
  handshake_ = std::make_unique<DialingHandshake>(std::move(*socket), service_.options().library_version, hello,
                                                  options_.key, std::move(*nonce));
  return service_.reactor().watch(handle, [this] { advance(); });
}

void Dial::advance() {
  switch (handshake_->advance()) {
    case Handshake::State::kPending:
      return;
    case Handshake::State::kDone: {
      service_.reactor().unwatch(handshake_->socket().handle());
      std::unique_ptr<Socket> socket = handshake_->take_socket();
      handshake_.reset();
      return finish(std::move(socket), Refusal::kNone);
    }
    case Handshake::State::kFailed:
      const Refusal refusal = handshake_->refusal();
      const Status status = handshake_->status();
      if (refusal == Refusal::kNone || refusal == Refusal::kUnknown)
        return try_later(status, handshake_->was_answered());
      return finish(status, refusal);
  }
}

// Who answers at one address lives, whatever becomes of the others.
void Dial::try_later(const Status& status, bool answered) {
  const Refusal refusal = handshake_ != nullptr ? handshake_->refusal() : Refusal::kNone;
  last_failure_ = status;
  close();
  const Time next = service_.system().clock.now() + pause_;
  in_vain_ = answered ? 0 : in_vain_ + 1;
  const bool is_over = answered ? next >= options_.unknown_until
                                : next >= options_.unreachable_until && in_vain_ >= options_.addresses.size();
  if (is_over) return finish(status, refusal);
  timer_ = service_.reactor().at(next, [this] { attempt(); });
  if (attempts_ % options_.addresses.size() == 0) pause_ = std::min(pause_ * 2, kLongestPause);
}

void Dial::finish(Result<std::unique_ptr<Socket>> socket, Refusal refusal) {
  close();
  const Done done = std::move(done_);
  done(std::move(socket), refusal);
}

}  // namespace hocket
