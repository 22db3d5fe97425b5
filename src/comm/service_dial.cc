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
constexpr int kTriesPerConnection = 2;
constexpr size_t kMaxConnections = 4;  // at once

Duration time_of_a_try(const Service& service) { return service.options().timeout / kTriesPerTimeout; }

// A process that is stopped takes connections and bytes (its kernel does) and says nothing. One that lives tells within
// half of the timeout that it does not know us yet; a root, at the end of its patience, which its refusal must precede.
int max_silent_tries(const Service& service, Purpose purpose) {
  if (purpose != Purpose::kCheckIn) return kTriesPerTimeout;
  const Duration patience = service.options().handshake_timeout * 3 / 2;
  return std::max(kTriesPerTimeout, static_cast<int>(patience / time_of_a_try(service)));
}

}  // namespace

Dial::Dial(Service& service, DialOptions options, Done done)
    : service_(service),
      options_(std::move(options)),
      begun_(service.system().clock.now()),
      done_(std::move(done)),
      in_vain_(options_.addresses.size()),
      pause_(kFirstPause) {
  timer_ = service_.reactor().at(service_.system().clock.now(), [this] { attempt(); });
}

Dial::~Dial() { close(); }

bool Dial::may_be_let_in() const {
  return std::any_of(attempts_.begin(), attempts_.end(),
                     [](const Attempt& each) { return each.handshake->was_challenged(); });
}

std::unique_ptr<DialingHandshake> Dial::take(const DialingHandshake* handshake) {
  service_.reactor().unwatch(handshake->socket().handle());
  const auto found = std::find_if(attempts_.begin(), attempts_.end(),
                                  [&](const Attempt& each) { return each.handshake.get() == handshake; });
  std::unique_ptr<DialingHandshake> taken = std::move(found->handshake);
  attempts_.erase(found);
  return taken;
}

void Dial::close() {
  service_.reactor().cancel(timer_);
  while (!attempts_.empty()) (void)take(attempts_.back().handshake.get());
}

void Dial::attempt() {
  const Address& address = options_.addresses[connections_++ % options_.addresses.size()];
  const Status status = connect(address);
  if (!status.ok() && attempts_.empty())
    return is_gone(status) ? finish(status, Refusal::kNone) : try_later(status, false);
  expect_end();
  if (status.ok()) advance(attempts_.back().handshake.get());
}

bool Dial::is_gone(const Status& no_connection) const {
  const bool is_refused = options_.is_here && no_connection.code() == Code::kRemote;
  return is_refused && service_.system().clock.now() + pause_ >= begun_ + time_of_a_try(service_);
}

Status Dial::connect(const Address& address) {
  Result<std::string> nonce = random_bytes(kNonceBytes);
  if (!nonce.ok()) return nonce.status();
  Result<std::unique_ptr<Socket>> socket = service_.system().network.connect(address);
  if (!socket.ok()) return socket.status();
  const Handle handle = (*socket)->handle();
  Hello hello = options_.hello;
  hello.sealed = service_.seals(address);
  auto handshake = std::make_unique<DialingHandshake>(std::move(*socket), service_.options().library_version, hello,
                                                      options_.key, std::move(*nonce));
  HOCKET_TRY(service_.reactor().watch(handle, [this, raw = handshake.get()] { advance(raw); }));
  attempts_.push_back({address, std::move(handshake)});
  return {};
}

void Dial::expect_end() {
  service_.reactor().cancel(timer_);
  timer_ = service_.reactor().at(service_.system().clock.now() + time_of_a_try(service_), [this] { on_try_over(); });
}

void Dial::on_try_over() {
  const Attempt& newest = attempts_.back();
  const Status late(Code::kTimeout, fmt::format("{} did not answer in time", newest.address));
  if (is_lost()) return finish(late, Refusal::kNone);
  if (newest.handshake->was_answered()) return on_silence(late);
  last_failure_ = late;
  (void)take(newest.handshake.get());
  if (++unanswered_ >= kTriesPerTimeout) return try_later(late, false);
  attempt();
}

// Who has had our proof may have let us in already, and must not find the connection closed.
void Dial::on_silence(const Status& late) {
  if (options_.on_silence) options_.on_silence();
  if (++silent_tries_ >= max_silent_tries(service_, options_.hello.purpose)) {
    if (!options_.on_silence) return try_later(late, false);
    if (!attempts_.back().handshake->was_challenged()) return try_later(late, true);
  }
  const bool more = options_.several && attempts_.size() < kMaxConnections;
  if (more && silent_tries_ % kTriesPerConnection == 0) return attempt();
  expect_end();
}

void Dial::advance(DialingHandshake* handshake) {
  const bool was_challenged = handshake->was_challenged();
  switch (handshake->advance()) {
    case Handshake::State::kPending:
      if (handshake->was_challenged() != was_challenged) silent_tries_ = 0;
      return;
    case Handshake::State::kDone:
      return finish(take(handshake)->take_socket(), Refusal::kNone);
    case Handshake::State::kFailed:
      return on_failure(handshake);
  }
}

// What the others of several come to is waited for: the door has let one of them in, or is about to.
void Dial::on_failure(DialingHandshake* handshake) {
  const Refusal refusal = handshake->refusal();
  const Status status = handshake->status();
  const bool answered = handshake->was_answered();
  const bool may_change = refusal == Refusal::kNone || refusal == Refusal::kUnknown;
  if (attempts_.size() > 1 && (may_change || refusal == Refusal::kDuplicate)) {
    if (refusal != Refusal::kNone) silent_tries_ = 0;
    last_failure_ = status;
    return (void)take(handshake);
  }
  if (may_change) return try_later(status, answered, refusal);
  finish(status, refusal);
}

// Who answers at one address lives, whatever becomes of the others.
void Dial::try_later(const Status& status, bool answered, Refusal refusal) {
  in_vain_ = answered ? 0 : in_vain_ + std::max(attempts_.size(), size_t{1});
  last_failure_ = status;
  close();
  silent_tries_ = 0;
  const Time next = service_.system().clock.now() + pause_;
  const bool is_over = answered
                           ? next >= options_.unknown_until
                           : (next >= options_.unreachable_until || is_lost()) && in_vain_ >= options_.addresses.size();
  if (is_over) return finish(status, refusal);
  timer_ = service_.reactor().at(next, [this] { attempt(); });
  if (connections_ % options_.addresses.size() == 0) pause_ = std::min(pause_ * 2, kLongestPause);
}

void Dial::finish(Result<std::unique_ptr<Socket>> socket, Refusal refusal) {
  close();
  const Done done = std::move(done_);
  done(std::move(socket), refusal);
}

}  // namespace hocket
